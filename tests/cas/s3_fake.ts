/** @module A server of S3 in this process, which does what a test wants at any request. */

import { createHash } from "node:crypto";

/** A request as the fake saw it. */
export interface Seen {
  readonly method: string;
  readonly url: URL;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** What a test makes of a request: an answer, or null for the usual one. */
export type Hook = (
  seen: Seen,
  usual: () => Response,
) => Response | null | Promise<Response | null>;

const md5 = (bytes: Uint8Array, form: "hex" | "base64" = "hex") =>
  createHash("md5").update(bytes).digest(form);

/** An answer that refuses with `code`. */
export function refuse(
  status: number,
  code: string,
  more = "",
  headers: HeadersInit = {},
): Response {
  const xml =
    `<?xml version="1.0"?>\n<Error><Code>${code}</Code><Message>said &amp; done</Message>${more}</Error>`;
  return new Response(xml, { status, headers });
}

/** One bucket, by path. */
export class FakeS3 implements AsyncDisposable {
  readonly objects = new Map<string, Uint8Array<ArrayBuffer>>();
  /** When objects were written, as far as it was by a request (Unix ms). */
  readonly modified = new Map<string, number>();
  readonly uploads = new Map<string, Map<number, Uint8Array<ArrayBuffer>>>();
  /** What uploads in parts are for, and when they were begun (Unix ms). */
  readonly begun = new Map<string, { readonly key: string; readonly at: number }>();
  /** When what is written now is written (Unix ms). */
  now: () => number = Date.now;
  readonly seen: Seen[] = [];
  hook: Hook = () => null;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(options: Deno.TlsCertifiedKeyPem | Record<never, never> = {}) {
    this.#server = Deno.serve(
      {
        hostname: "127.0.0.1",
        port: 0,
        onListen: () => {},
        onError: () => new Response(null, { status: 500 }),
        ...options,
      },
      (request) => this.handle(request),
    );
  }

  get port(): number {
    return this.#server.addr.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  /** How many requests of `method` to a path with `part` in it there were. */
  count(method: string, part = ""): number {
    return this.seen.filter((seen) => seen.method === method && seen.url.href.includes(part))
      .length;
  }

  async handle(request: Request): Promise<Response> {
    const seen = {
      method: request.method,
      url: new URL(request.url),
      headers: request.headers,
      body: await request.bytes(),
    };
    this.seen.push(seen);
    return await this.hook(seen, () => this.#usual(seen)) ?? this.#usual(seen);
  }

  #usual(seen: Seen): Response {
    const { method, url, headers, body } = seen;
    // The bucket is a part of the host's name, or the start of the path.
    const skipped = /^(?!s3\.).*\.amazonaws\.com$/.test(url.hostname) ? 1 : 2;
    const key = decodeURIComponent(url.pathname.split("/").slice(skipped).join("/"));
    if (key === "") return method === "HEAD" ? new Response(null) : this.#list(url);
    if (url.searchParams.has("uploads") || url.searchParams.has("uploadId")) {
      return this.#multipart(key, seen);
    }
    const object = this.objects.get(key);
    switch (method) {
      case "PUT":
        if (headers.get("if-none-match") === "*" && object !== undefined) {
          return refuse(412, "PreconditionFailed");
        }
        if (headers.get("content-md5") !== md5(body, "base64")) return refuse(400, "BadDigest");
        this.objects.set(key, body);
        this.modified.set(key, this.now());
        return new Response(null, { headers: { etag: `"${md5(body)}"` } });
      case "DELETE":
        this.objects.delete(key);
        this.modified.delete(key);
        return new Response(null, { status: 204 });
      default:
        if (object === undefined) {
          return method === "HEAD" ? new Response(null, { status: 404 }) : refuse(404, "NoSuchKey");
        }
        return deliver(object, headers, method === "HEAD", this.#time(key));
    }
  }

  #time(key: string): Date {
    return new Date(this.modified.get(key) ?? Date.now());
  }

  #list(url: URL): Response {
    if (url.searchParams.has("uploads")) return this.#listUploads();
    const prefix = url.searchParams.get("prefix") ?? "";
    const items = [...this.objects].sort().filter(([key]) => key.startsWith(prefix)).map((
      [key, bytes],
    ) =>
      `<Contents><Key>${key.replaceAll("&", "&amp;")}</Key><Size>${bytes.length}</Size>` +
      `<LastModified>${this.#time(key).toISOString()}</LastModified></Contents>`
    );
    return new Response(
      `<ListBucketResult><IsTruncated>false</IsTruncated>${items.join("")}</ListBucketResult>`,
    );
  }

  #listUploads(): Response {
    const items = [...this.begun].map(([id, { key, at }]) =>
      `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${
        new Date(at).toISOString()
      }</Initiated></Upload>`
    );
    return new Response(`<R><IsTruncated>false</IsTruncated>${items.join("")}</R>`);
  }

  #multipart(key: string, { method, url, body }: Seen): Response {
    const id = url.searchParams.get("uploadId") ?? "";
    if (method === "POST" && id === "") {
      const fresh = crypto.randomUUID();
      this.uploads.set(fresh, new Map());
      this.begun.set(fresh, { key, at: this.now() });
      return new Response(`<R><UploadId>${fresh}</UploadId></R>`);
    }
    const parts = this.uploads.get(id);
    if (parts === undefined) return refuse(404, "NoSuchUpload");
    if (method === "PUT") {
      parts.set(Number(url.searchParams.get("partNumber")), body);
      return new Response(null, { headers: { etag: `"${md5(body)}"` } });
    }
    if (method === "GET") {
      const sizes = [...parts.values()].map(({ length }) => `<Part><Size>${length}</Size></Part>`);
      return new Response(`<R><IsTruncated>false</IsTruncated>${sizes.join("")}</R>`);
    }
    this.uploads.delete(id);
    this.begun.delete(id);
    if (method === "DELETE") return new Response(null, { status: 204 });
    const ordered = [...parts].sort(([a], [b]) => a - b).map(([, bytes]) => bytes);
    const whole = new Uint8Array(ordered.reduce((sum, bytes) => sum + bytes.length, 0));
    let at = 0;
    for (const bytes of ordered) {
      whole.set(bytes, at);
      at += bytes.length;
    }
    this.objects.set(key, whole);
    this.modified.set(key, this.now());
    return new Response(`<R><ETag>"${md5(whole)}"</ETag></R>`);
  }
}

function deliver(
  object: Uint8Array<ArrayBuffer>,
  headers: Headers,
  head: boolean,
  time: Date,
): Response {
  const modified = { "last-modified": time.toUTCString() };
  const etag = `"${md5(object)}"`;
  const wanted = headers.get("if-match");
  if (wanted !== null && wanted !== etag) return refuse(412, "PreconditionFailed");
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(headers.get("range") ?? "") ?? [];
  if (first === undefined) {
    return new Response(head ? null : object, {
      headers: { etag, ...modified, "content-length": String(object.length) },
    });
  }
  const [from, to] = [Number(first), Math.min(object.length, last ? Number(last) + 1 : Infinity)];
  if (from >= object.length) return refuse(416, "InvalidRange");
  return new Response(head ? null : object.slice(from, to), {
    status: 206,
    headers: { etag, ...modified, "content-range": `bytes ${from}-${to - 1}/${object.length}` },
  });
}

/** `answer`, whose body breaks off after `count` bytes. */
export async function cutAfter(answer: Response, count: number): Promise<Response> {
  const bytes = await answer.bytes();
  let sent = false;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!sent) {
        sent = true;
        return controller.enqueue(bytes.subarray(0, count));
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
      controller.error(new Error("reset"));
    },
  });
  const headers = new Headers(answer.headers);
  headers.set("content-length", String(bytes.length));
  return new Response(stream, { status: answer.status, headers });
}
