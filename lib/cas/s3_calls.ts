/**
 * @module Calls of S3: signed, to the bucket's region, tried again. What an answer teaches (another region, another
 * clock, that the keys have expired) is learnt, and the call is made again at once.
 */

import { Buffer } from "node:buffer";
import { type Clock, SubletError } from "../home/mod.ts";
import type { HttpRequest, HttpResponse } from "../net/mod.ts";
import { type Hosts, persist, Transient } from "./objects_calls.ts";
import type { AwsCredentials } from "./s3_credentials.ts";
import { bucketUrl, encodePart } from "./s3_endpoint.ts";
import { isTransient, readRefusal, refused, type S3Refusal } from "./s3_errors.ts";
import type { AwsKeys } from "./s3_keys.ts";
import { signed } from "./s3_sign.ts";

/** SHA-256 of nothing. */
const EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** How often one call learns something before it gives up. */
const LESSONS = 4;

/** Smaller differences between clocks, in milliseconds, are no reason for a refusal. */
const SKEW = 60_000;

/** A call. */
export interface S3Request {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  /** For messages: what is done, with the key. */
  readonly what: string;
  /** Key in the bucket. Default: the bucket itself. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Made anew for each try. */
  readonly body?: () => NonNullable<HttpRequest["body"]>;
  /** Of the body: asked for where it crosses the network in clear, and has to be signed, too. */
  readonly sha256?: () => Uint8Array | Promise<Uint8Array>;
  /** Statuses, besides those from 200 to 299, and codes of refusals that are answers. */
  readonly takes?: readonly (number | string)[];
  /** Send it only if there is no object yet, where the server can do that. */
  readonly onlyNew?: boolean;
  readonly timeoutMs?: number;
  /** Failures that may pass are not waited for. */
  readonly once?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** What is asked for: an answer to be read, or a refusal that is one, whose body was read. */
export type S3Answer =
  | { readonly ok: true; readonly answer: HttpResponse }
  | { readonly ok: false; readonly refusal: S3Refusal };

/** Where and as whom S3 is called. */
export interface S3CallsOptions {
  readonly bucket: string;
  readonly region: string;
  /** Instead of AWS. */
  readonly endpoint: string | null;
  readonly credentials: AwsCredentials;
  readonly hosts: Hosts;
  readonly clock: Clock;
}

/** What answers teach. */
interface Known {
  readonly region: string;
  /** How far the server's clock is ahead, in milliseconds. */
  readonly skew: number;
  /** Whether the server knows conditional writes. */
  readonly conditions: boolean;
}

/** What a request is sent with. */
interface Sender extends Known {
  readonly keys: AwsKeys;
  /** Instead of the bucket's. */
  readonly host: string | null;
}

export class S3Calls {
  readonly #options: S3CallsOptions;
  /** What was learnt so far. */
  #known: Known;

  constructor(options: S3CallsOptions) {
    this.#options = options;
    this.#known = { region: options.region, skew: 0, conditions: true };
  }

  /** Make the call. `read` makes something of the answer, and may be called again when that breaks off. */
  async call<T>(request: S3Request, read: (found: S3Answer) => T | Promise<T>): Promise<T> {
    const { clock } = this.#options;
    let lessons = 0;
    let host: string | null = null;
    return await persist(request.what, clock, request.signal, async () => {
      while (true) {
        const keys = await this.#options.credentials.keys();
        const known = this.#known;
        const answer = await this.#send(request, { ...known, keys, host });
        if (answer.status >= 200 && answer.status < 300) return await read({ ok: true, answer });
        let refusal = await readRefusal(answer);
        if (request.takes?.includes(refusal.status) || request.takes?.includes(refusal.code)) {
          return await read({ ok: false, refusal });
        }
        if (request.method === "HEAD") {
          refusal = await this.#ask(request, { ...known, keys, host }, refusal);
        }
        if (lessons++ < LESSONS) {
          if (await this.#learn(refusal, { ...known, keys }, request)) continue;
          host = this.#elsewhere(refusal) ?? host;
          if (refusal.status === 307 && host !== null) continue;
        }
        const error = refused(request.what, refusal);
        if (!isTransient(refusal)) throw error;
        throw new Transient(error, refusal.retryAfterMs);
      }
    }, request.once);
  }

  async #send(
    request: S3Request,
    { region, skew, conditions, keys, host }: Sender,
  ): Promise<HttpResponse> {
    const { method, key, body, signal, timeoutMs } = request;
    const { bucket, endpoint, hosts, clock } = this.#options;
    const url = bucketUrl(bucket, region, endpoint);
    if (host !== null) url.host = host;
    if (key !== undefined) {
      const path = key.split("/").map(encodePart).join("/");
      url.pathname = `${url.pathname.replace(/\/$/, "")}/${path}`;
    }
    url.search = Object.entries(request.query ?? {})
      .map(([name, value]) => `${encodePart(name)}=${encodePart(value)}`).sort().join("&");
    const condition = request.onlyNew && conditions ? { "if-none-match": "*" } : {};
    const scope = { service: "s3", region, at: clock.now() + skew } as const;
    const unsigned = {
      method,
      url,
      sha256: await hashFor(url, request),
      headers: { ...request.headers, ...condition },
    };
    return await hosts.send(url, {
      method,
      headers: await signed(unsigned, keys, scope),
      ...(body === undefined ? {} : { body: body() }),
      ...(signal === undefined ? {} : { signal }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    });
  }

  /** Why a HEAD was refused: a GET of one byte tells. */
  async #ask(request: S3Request, sender: Sender, refusal: S3Refusal): Promise<S3Refusal> {
    if (refusal.status !== 400 && refusal.status !== 403 || refusal.region !== null) return refusal;
    const headers = { ...request.headers, range: "bytes=0-0" };
    const answer = await this.#send({ ...request, method: "GET", headers }, sender);
    if (answer.status >= 200 && answer.status < 300) {
      await answer.discard();
      return refusal;
    }
    return await readRefusal(answer);
  }

  /**
   * Whether `refusal` taught something with which the call may succeed. It is compared with what the request was sent
   * with: another call may have learnt the same meanwhile.
   */
  async #learn(
    refusal: S3Refusal,
    sent: Omit<Sender, "host">,
    request: S3Request,
  ): Promise<boolean> {
    const { region, code, date, status } = refusal;
    if ([301, 307, 400, 403].includes(status) && region !== null && isRegion(region)) {
      this.#known = { ...this.#known, region };
      if (region !== sent.region) return true;
    }
    if (code === "RequestTimeTooSkewed" && !Number.isNaN(date)) {
      const skew = date - this.#options.clock.now();
      this.#known = { ...this.#known, skew };
      return Math.abs(skew - sent.skew) > SKEW;
    }
    if (["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"].includes(code)) {
      return await this.#options.credentials.renew(sent.keys);
    }
    if (request.onlyNew && sent.conditions && (status === 501 || code === "NotImplemented")) {
      this.#known = { ...this.#known, conditions: false };
      return true;
    }
    return false;
  }

  /** The host that a redirect names, if it is one of S3's: nobody else gets what is signed for S3. */
  #elsewhere({ status, location }: S3Refusal): string | null {
    if (status !== 307 || location === null || !URL.canParse(location)) return null;
    const { host, hostname } = new URL(location);
    return /\.amazonaws\.com(\.cn)?$/.test(hostname) && this.#options.endpoint === null
      ? host
      : null;
  }
}

/** What is signed of the body. TLS protects it from others, and `content-md5` from accidents. */
async function hashFor(url: URL, { body, sha256 }: S3Request): Promise<string> {
  if (body === undefined || sha256 === undefined) return EMPTY;
  if (url.protocol === "https:") return "UNSIGNED-PAYLOAD";
  return Buffer.from(await sha256()).toString("hex");
}

/** Whether `text` may be a region: it becomes a part of a host name. */
function isRegion(text: string): boolean {
  return /^[a-z0-9-]{2,40}$/.test(text);
}

/** The answer to a call that has no other answers. */
export function answerOf(found: S3Answer): HttpResponse {
  if (found.ok) return found.answer;
  throw new SubletError("internal", `S3 answered ${found.refusal.status}`);
}
