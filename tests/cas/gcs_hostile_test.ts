/** @module Tests of what the `gcs` provider makes of servers that fail, and of where its tokens come from. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash, createVerify, generateKeyPairSync } from "node:crypto";
import { cidOf } from "../../lib/cas/mod.ts";
import { type GcsOptions, openGcs } from "../../lib/cas/gcs.ts";
import { isError, type SubletError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { hastyClock, noise } from "./bucket_kit.ts";
import { cutAfter } from "./s3_fake.ts";

interface Seen {
  readonly method: string;
  readonly url: URL;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
}

type Hook = (seen: Seen, usual: () => Response) => Response | null | Promise<Response | null>;

const refuse = (code: number, message: string, reason = "") =>
  Response.json({ error: { code, message, errors: [{ reason }] } }, { status: code });

/** One bucket of GCS in this process, which does what a test wants at any request. */
class FakeGcs implements AsyncDisposable {
  readonly objects = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly sessions = new Map<string, { name: string; bytes: Uint8Array<ArrayBuffer> }>();
  readonly seen: Seen[] = [];
  hook: Hook = () => null;
  readonly #server = Deno.serve(
    {
      hostname: "127.0.0.1",
      port: 0,
      onListen: () => {},
      onError: () => new Response(null, { status: 500 }),
    },
    (request) => this.#handle(request),
  );

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #handle(request: Request): Promise<Response> {
    const { method, headers } = request;
    const url = new URL(request.url);
    const seen = { method, url, headers, body: await request.bytes() };
    this.seen.push(seen);
    return await this.hook(seen, () => this.#usual(seen)) ?? this.#usual(seen);
  }

  #resource(name: string): Response {
    const bytes = this.objects.get(name);
    if (bytes === undefined) return refuse(404, `No such object: ${name}`);
    const md5Hash = createHash("md5").update(bytes).digest("base64");
    return Response.json({ name, size: String(bytes.length), generation: "7", md5Hash });
  }

  #usual({ method, url, headers, body }: Seen): Response {
    const query = url.searchParams;
    const session = query.get("session");
    if (session !== null) return this.#session(session, method, headers, body);
    if (url.pathname.startsWith("/upload/")) {
      const name = query.get("name") ?? "";
      if (query.get("ifGenerationMatch") === "0" && this.objects.has(name)) {
        return refuse(412, "conditionNotMet");
      }
      if (query.get("uploadType") === "resumable") {
        const id = crypto.randomUUID();
        this.sessions.set(id, { name, bytes: new Uint8Array(0) });
        return new Response(null, { headers: { location: `${this.url}/elsewhere?session=${id}` } });
      }
      this.objects.set(name, mediaOf(headers, body));
      return this.#resource(name);
    }
    const name = decodeURIComponent(url.pathname.split("/o/")[1] ?? "");
    if (name === "") {
      const items = [...this.objects].map(([name, bytes]) => ({
        name,
        size: String(bytes.length),
      }));
      return Response.json({ items });
    }
    if (method === "DELETE") {
      return new Response(null, { status: this.objects.delete(name) ? 204 : 404 });
    }
    const bytes = this.objects.get(name);
    if (query.get("alt") !== "media" || bytes === undefined) return this.#resource(name);
    const [, from = "0", to] = /^bytes=(\d+)-(\d*)$/.exec(headers.get("range") ?? "") ?? [];
    const part = bytes.slice(Number(from), to ? Number(to) + 1 : bytes.length);
    const end = Number(from) + part.length - 1;
    return new Response(part, {
      status: headers.has("range") ? 206 : 200,
      headers: {
        "x-goog-generation": "7",
        "content-length": String(part.length),
        ...(headers.has("range")
          ? { "content-range": `bytes ${from}-${end}/${bytes.length}` }
          : {}),
      },
    });
  }

  #session(id: string, method: string, headers: Headers, body: Uint8Array<ArrayBuffer>): Response {
    const session = this.sessions.get(id);
    if (session === undefined) return refuse(410, "gone");
    if (method === "DELETE") {
      this.sessions.delete(id);
      return new Response(null, { status: 499 });
    }
    const [, from, total] =
      /^bytes (?:(\d+)-\d+|\*)\/(\d+)$/.exec(headers.get("content-range") ?? "") ?? [];
    if (from !== undefined) {
      if (Number(from) !== session.bytes.length) return refuse(400, "wrong place");
      session.bytes = new Uint8Array(Buffer.concat([session.bytes, body]));
    }
    if (session.bytes.length < Number(total)) {
      const had = session.bytes.length;
      return new Response(null, {
        status: 308,
        headers: had === 0 ? {} : { range: `bytes=0-${had - 1}` },
      });
    }
    this.objects.set(session.name, session.bytes);
    return this.#resource(session.name);
  }
}

/** The second part of a multipart/related body. */
function mediaOf(headers: Headers, body: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const boundary = /boundary=(.*)$/.exec(headers.get("content-type") ?? "")?.[1] ?? "";
  const text = Buffer.from(body).toString("latin1");
  const from = text.indexOf("\r\n\r\n", text.indexOf(`--${boundary}`, 10)) + 4;
  return body.slice(from, text.lastIndexOf(`\r\n--${boundary}--`));
}

async function bench(options: Partial<GcsOptions> = {}) {
  const fake = new FakeGcs();
  const tmp = await TempDir.make();
  const cas = await openGcs({
    bucket: "bucket",
    tmp: tmp.path,
    clock: hastyClock(),
    ...options,
    env: { STORAGE_EMULATOR_HOST: fake.url, HOME: "/nonexistent", ...options.env },
  });
  const leftovers = async () => {
    const names: string[] = [];
    for await (const { name } of Deno.readDir(tmp.join("cas-uploads"))) names.push(name);
    return names;
  };
  return {
    fake,
    cas,
    leftovers,
    async [Symbol.asyncDispose]() {
      await cas[Symbol.asyncDispose]();
      await fake[Symbol.asyncDispose]();
      await tmp[Symbol.asyncDispose]();
    },
  };
}

const failure = async (work: Promise<unknown>): Promise<SubletError> => {
  const error = await work.then(() => null, (error) => error);
  assert.ok(isError(error), String(error));
  return error;
};

const LARGE = noise(5 * 1024 * 1024);

Deno.test("busy and broken servers are asked again, whatever is asked of them", async () => {
  for (
    const answer of [
      () => refuse(503, "backend"),
      () => refuse(429, "slow down", "rateLimitExceeded"),
      () => refuse(403, "slow down", "userRateLimitExceeded"),
      () => new Response("<html>bad gateway</html>", { status: 502 }),
    ]
  ) {
    await using at = await bench();
    const times = new Map<string, number>();
    at.fake.hook = (seen) => {
      const kind = seen.method + [...seen.url.searchParams.keys()].join();
      times.set(kind, (times.get(kind) ?? 0) + 1);
      return (times.get(kind) ?? 0) > 2 ? null : answer();
    };
    const small = noise(1000);
    const cid = await at.cas.put(small);
    assert.deepEqual(await at.cas.get(cid), small);
    assert.deepEqual(await at.cas.get(await at.cas.put(LARGE)), LARGE);
    assert.equal((await at.cas.usage()).blobs, 2);
    assert.equal(await at.cas.release(cid), 1017);
    assert.deepEqual(await at.leftovers(), []);
  }
});

Deno.test("an upload goes on where the server says that it broke off", async () => {
  await using at = await bench();
  let puts = 0;
  at.fake.hook = (seen) => {
    const range = seen.headers.get("content-range") ?? "";
    if (seen.method !== "PUT" || range.startsWith("bytes *")) return null;
    if (++puts > 3) return null;
    // A part of it arrives, and then the connection is gone.
    const [id, session] = [...at.fake.sessions][0] ?? ["", { name: "", bytes: new Uint8Array(0) }];
    const had = Buffer.concat([session.bytes, seen.body.subarray(0, 1_048_576)]);
    at.fake.sessions.set(id, { name: session.name, bytes: new Uint8Array(had) });
    if (puts === 3) {
      return new Response(null, { status: 308, headers: { range: `bytes=0-${had.length - 1}` } });
    }
    throw new Error("reset");
  };
  const cid = await at.cas.put(LARGE);
  assert.deepEqual(await at.cas.get(cid), LARGE);
  const ranges = at.fake.seen.flatMap((seen) =>
    seen.method === "PUT"
      ? [(seen.headers.get("content-range") ?? "").replace(/-\d*\/\d*$/, "")]
      : []
  );
  const size = LARGE.length + 14 + 3 * 40;
  assert.deepEqual(ranges, [
    ...["bytes 0", `bytes */${size}`, "bytes 1048576", `bytes */${size}`],
    ...["bytes 2097152", "bytes 3145728"],
  ]);
});

Deno.test("an upload that gets nowhere is given up, and its session with it", async () => {
  await using at = await bench();
  at.fake.hook = (seen) => seen.method === "PUT" ? new Response(null, { status: 308 }) : null;
  assert.equal((await failure(at.cas.put(LARGE))).code, "unavailable");
  assert.equal(at.fake.sessions.size, 0);
  assert.equal(at.fake.objects.size, 0);
  assert.deepEqual(await at.leftovers(), []);
});

Deno.test("an upload that is cancelled, or whose session is gone, leaves nothing", async () => {
  await using at = await bench();
  const stop = new AbortController();
  at.fake.hook = (seen) => {
    if (seen.method !== "PUT") return null;
    stop.abort();
    return new Response(null, { status: 503 });
  };
  const put = () =>
    at.cas.putStream(new Response(LARGE).body as ReadableStream<Uint8Array>, {
      signal: stop.signal,
    });
  assert.equal((await failure(put())).code, "cancelled");
  at.fake.hook = (seen) => seen.method === "PUT" ? refuse(410, "gone") : null;
  assert.equal((await failure(at.cas.put(LARGE))).code, "unavailable");
  assert.deepEqual(await at.leftovers(), []);
  assert.equal(at.fake.objects.size, 0);
  // Another session may do better.
  let gone = 2;
  at.fake.hook = (seen) => seen.method === "PUT" && gone-- > 0 ? refuse(404, "gone") : null;
  assert.equal(await at.cas.put(LARGE), cidOf(LARGE));
});

Deno.test("a body that breaks off is read on, and wrong bytes are never delivered", async () => {
  await using at = await bench();
  const cid = await at.cas.put(LARGE);
  let cuts = 0;
  at.fake.hook = async (seen, usual) =>
    seen.url.searchParams.get("alt") === "media" && ++cuts <= 3
      ? await cutAfter(usual(), 1_000_000)
      : null;
  assert.deepEqual(await at.cas.get(cid), LARGE);
  assert.equal(at.fake.seen.at(-1)?.url.searchParams.get("generation"), "7");
  const [name, right] = [...at.fake.objects][0] as [string, Uint8Array<ArrayBuffer>];
  for (
    const wrong of [right.map((byte, i) => i === 4_000_000 ? byte ^ 1 : byte), right.slice(0, -3)]
  ) {
    at.fake.objects.set(name, wrong);
    assert.equal((await failure(at.cas.get(cid))).code, "integrity");
    // The next put repairs it.
    assert.equal(await at.cas.put(LARGE), cid);
    assert.deepEqual(await at.cas.get(cid), LARGE);
  }
});

Deno.test("a bucket whose readers pay is asked with the project, once it says so", async () => {
  const pays = (seen: Seen) =>
    seen.url.searchParams.has("userProject")
      ? null
      : refuse(400, "Bucket is a requester pays bucket but no user project provided.", "required");
  await using at = await bench({ project: "my-project" });
  at.fake.hook = pays;
  const data = noise(100);
  assert.deepEqual(await at.cas.get(await at.cas.put(data)), data);
  assert.equal(at.fake.seen.filter((seen) => !seen.url.searchParams.has("userProject")).length, 1);
  await using without = await bench();
  without.fake.hook = pays;
  const error = await failure(without.cas.put(data));
  assert.equal(error.code, "config");
  assert.match(error.message, /plugins\.cas\.project/);
});

const PAIR = generateKeyPairSync("rsa", { modulusLength: 2048 });

/** A server of tokens that checks who asks, and a key file for it. */
async function authority(path: string, lifetime = 3600) {
  const issued: string[] = [];
  let closed = false;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const form = await request.formData();
      if (closed) {
        return Response.json({
          error: "invalid_grant",
          error_description: "Invalid JWT Signature.",
        }, { status: 400 });
      }
      const [head = "", claims = "", signature = ""] = String(form.get("assertion")).split(".");
      const good = createVerify("RSA-SHA256").update(`${head}.${claims}`)
        .verify(PAIR.publicKey, signature, "base64url");
      const { iss, aud, scope, exp, iat } = JSON.parse(Buffer.from(claims, "base64url").toString());
      assert.ok(good && iss === "me@project.example" && aud === url && exp - iat === 3600);
      assert.match(scope, /devstorage\.read_write/);
      issued.push(`token-${issued.length + 1}`);
      return Response.json({
        access_token: issued.at(-1),
        expires_in: lifetime,
        token_type: "Bearer",
      });
    },
  );
  const url = `http://127.0.0.1:${server.addr.port}/token`;
  const key = {
    type: "service_account",
    client_email: "me@project.example",
    private_key: PAIR.privateKey.export({ type: "pkcs8", format: "pem" }),
    private_key_id: "1",
    token_uri: url,
  };
  await Deno.writeTextFile(path, JSON.stringify(key));
  return {
    issued,
    close: () => void (closed = true),
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("a service account's key gets a token, which is kept, and renewed when it is refused", async () => {
  await using home = await TempDir.make();
  await using tokens = await authority(home.join("key.json"));
  await using at = await bench({ credentialsFile: home.join("key.json") });
  const data = noise(100);
  await Promise.all([at.cas.put(data), at.cas.has(cidOf(data))]);
  assert.deepEqual(tokens.issued, ["token-1"]);
  at.fake.hook = (seen) =>
    seen.headers.get("authorization") === "Bearer token-2"
      ? null
      : refuse(401, "Invalid Credentials");
  assert.deepEqual(await at.cas.get(cidOf(data)), data);
  assert.deepEqual(tokens.issued, ["token-1", "token-2"]);
  // The session's URL is at the server itself here, so it gets the token.
  at.fake.hook = () => null;
  await at.cas.put(LARGE);
  assert.equal(at.fake.seen.at(-1)?.headers.get("authorization"), "Bearer token-2");
  at.fake.hook = () => refuse(401, "Invalid Credentials");
  tokens.close();
  const error = await failure(at.cas.get(cidOf(data)));
  assert.equal(error.code, "config");
  assert.match(error.message, /invalid_grant.*Invalid JWT Signature.*key/);
});

Deno.test("a token that is about to expire is asked for anew", async () => {
  await using home = await TempDir.make();
  await using tokens = await authority(home.join("key.json"), 200);
  await using at = await bench({
    env: { GOOGLE_APPLICATION_CREDENTIALS: home.join("key.json") },
    credentialsFile: home.join("key.json"),
  });
  await at.cas.put(noise(10));
  await at.cas.put(noise(11));
  assert.ok(tokens.issued.length >= 2);
});

Deno.test("what gcloud left, and a machine's account, get tokens, too", async () => {
  await using home = await TempDir.make();
  const forms: Record<string, string>[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const { pathname } = new URL(request.url);
      if (request.method === "POST") {
        forms.push(
          Object.fromEntries(await request.formData()) as Record<string, string>,
        );
      } else if (request.headers.get("metadata-flavor") !== "Google") {
        return new Response(
          null,
          { status: 403 },
        );
      } else if (pathname === "/") return new Response("computeMetadata/");
      return Response.json({ access_token: `for ${request.method}`, expires_in: 3600 });
    },
  );
  const host = `127.0.0.1:${server.addr.port}`;
  try {
    await Deno.mkdir(home.join(".config/gcloud"), { recursive: true });
    const file = home.join(".config/gcloud/application_default_credentials.json");
    const user = {
      type: "authorized_user",
      client_id: "i",
      client_secret: "s",
      refresh_token: "r",
    };
    await Deno.writeTextFile(file, JSON.stringify({ ...user, token_uri: `http://${host}/token` }));
    const { GcsTokens } = await import("../../lib/cas/gcs_tokens.ts");
    const { Hosts } = await import("../../lib/cas/objects_calls.ts");
    const token = async (env: Record<string, string>) => {
      using hosts = new Hosts(env);
      return await new GcsTokens({ file: undefined, env, hosts, clock: hastyClock() }).token();
    };
    assert.equal(await token({ HOME: home.path, CLOUDSDK_CONFIG: "" }), "for POST");
    assert.deepEqual(forms, [{
      grant_type: "refresh_token",
      client_id: "i",
      client_secret: "s",
      refresh_token: "r",
    }]);
    assert.equal(await token({ HOME: "/nonexistent", GCE_METADATA_HOST: host }), "for GET");
    const none = await failure(token({ HOME: "/nonexistent", GCE_METADATA_HOST: "127.0.0.1:1" }));
    assert.equal(none.code, "config");
    assert.match(none.message, /credentials_file.*gcloud auth application-default login/);
  } finally {
    await server.shutdown();
  }
});

Deno.test("a key file that cannot be used is a mistake that names it, and shows nothing of it", async () => {
  await using home = await TempDir.make();
  const path = home.join("key.json");
  const told = async () => {
    await using at = await bench({ credentialsFile: path });
    const error = await failure(at.cas.put(noise(10)));
    assert.equal(error.code, "config");
    assert.ok(!error.message.includes("hidden"), error.message);
    return error.message;
  };
  assert.match(await told(), /key\.json: cannot be read/);
  await Deno.writeTextFile(path, "hidden");
  assert.match(await told(), /key\.json: must be the JSON key/);
  await Deno.writeTextFile(
    path,
    JSON.stringify({ type: "service_account", private_key: "hidden" }),
  );
  assert.match(await told(), /key\.json: must be the JSON key/);
  const bad = { type: "service_account", client_email: "x", private_key: "hidden" };
  await Deno.writeTextFile(path, JSON.stringify(bad));
  assert.match(await told(), /no RSA key/);
});

Deno.test("tokens of other identity services are exchanged, and used to act as an account", async () => {
  await using home = await TempDir.make();
  const seen: string[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/subject") {
        return Response.json({ value: request.headers.get("authorization") });
      }
      if (pathname === "/sts") {
        const form = await request.formData();
        seen.push(`${form.get("subject_token")} for ${form.get("audience")}, ${form.get("scope")}`);
        return Response.json({ access_token: "exchanged", expires_in: 3600 });
      }
      seen.push(
        `as ${pathname} with ${request.headers.get("authorization")}: ${await request.text()}`,
      );
      return pathname === "/refused"
        ? Response.json({ error: { status: "PERMISSION_DENIED", message: "not you" } }, {
          status: 403,
        })
        : Response.json({
          accessToken: "of the account",
          expireTime: new Date(Date.now() + 3600_000),
        });
    },
  );
  const base = `http://127.0.0.1:${server.addr.port}`;
  const external = {
    type: "external_account",
    audience: "//iam/pool",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_url: `${base}/sts`,
  };
  const bearer = async (file: Record<string, unknown>) => {
    await Deno.writeTextFile(home.join("file.json"), JSON.stringify(file));
    await using at = await bench({ credentialsFile: home.join("file.json") });
    await at.cas.put(noise(10));
    return at.fake.seen[0]?.headers.get("authorization");
  };
  try {
    await Deno.writeTextFile(home.join("token"), "from a file\n");
    const fromFile = { ...external, credential_source: { file: home.join("token") } };
    assert.equal(await bearer(fromFile), "Bearer exchanged");
    const fromUrl = {
      ...external,
      service_account_impersonation_url: `${base}/account`,
      credential_source: {
        url: `${base}/subject`,
        headers: { authorization: "of the job" },
        format: { type: "json", subject_token_field_name: "value" },
      },
    };
    assert.equal(await bearer(fromUrl), "Bearer of the account");
    const impersonated = {
      type: "impersonated_service_account",
      service_account_impersonation_url: `${base}/refused`,
      source_credentials: fromFile,
    };
    const error = await failure(bearer(impersonated));
    assert.equal(error.code, "config");
    assert.match(error.message, /PERMISSION_DENIED: not you/);
    const storage = "https://www.googleapis.com/auth/devstorage.read_write";
    assert.deepEqual(seen, [
      `from a file for //iam/pool, ${storage}`,
      "of the job for //iam/pool, https://www.googleapis.com/auth/cloud-platform",
      `as /account with Bearer exchanged: {"scope":["${storage}"]}`,
      `from a file for //iam/pool, ${storage}`,
      `as /refused with Bearer exchanged: {"scope":["${storage}"]}`,
    ]);
  } finally {
    await server.shutdown();
  }
});
