/** @module Calls of Google Cloud Storage (its JSON API): with a token, tried again, and what its refusals mean. */

import * as z from "zod";
import { type Clock, type ErrorCode, SubletError } from "../home/mod.ts";
import type { HttpRequest, HttpResponse } from "../net/mod.ts";
import { retryAfter } from "./http_calls.ts";
import { excerpt, type Hosts, persist, textOf, Transient } from "./objects_calls.ts";
import type { GcsTokens } from "./gcs_tokens.ts";

/** A call. */
export interface GcsRequest {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** For messages: what is done, with the key. */
  readonly what: string;
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** Made anew for each try. */
  readonly body?: () => NonNullable<HttpRequest["body"]>;
  /** Statuses, besides those from 200 to 299, that are answers. */
  readonly takes?: readonly number[];
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** What GCS says of a call that it refuses. */
export interface GcsRefusal {
  readonly status: number;
  /** Such as `rateLimitExceeded`. */
  readonly reason: string;
  readonly message: string;
}

const errorBody = z.object({
  error: z.object({
    message: z.string().default(""),
    errors: z.array(z.object({ reason: z.string().default("") })).default([]),
  }),
});

/** Where and as whom GCS is called. */
export interface GcsCallsOptions {
  /** Such as `https://storage.googleapis.com`. */
  readonly endpoint: string;
  /** Null: nobody asks who calls (an emulator). */
  readonly tokens: GcsTokens | null;
  /** Who pays where the bucket's owner does not. */
  readonly project: string | undefined;
  readonly hosts: Hosts;
  readonly clock: Clock;
}

export class GcsCalls {
  readonly #options: GcsCallsOptions;
  /** Who pays, once the bucket has asked for that. */
  #payer: string | null = null;

  constructor(options: GcsCallsOptions) {
    this.#options = options;
  }

  get clock(): Clock {
    return this.#options.clock;
  }

  /** The URL of `path` there. */
  url(path: string, query: Readonly<Record<string, string | undefined>> = {}): URL {
    const url = new URL(this.#options.endpoint);
    url.pathname = url.pathname.replace(/\/+$/, "") + path;
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, value);
    }
    return url;
  }

  /** Make the call. `read` makes something of the answer, and may be called again when that breaks off. */
  async call<T>(request: GcsRequest, read: (answer: HttpResponse) => T | Promise<T>): Promise<T> {
    return await persist(
      request.what,
      this.#options.clock,
      request.signal,
      async () => await this.once(request, read),
    );
  }

  /** One try of a call, and the ones at once after it for what its refusal taught. */
  async once<T>(request: GcsRequest, read: (answer: HttpResponse) => T | Promise<T>): Promise<T> {
    const { tokens, project } = this.#options;
    for (let lessons = 2;; lessons--) {
      const token = await tokens?.token() ?? null;
      const answer = await this.#send(request, token);
      if (answer.status >= 200 && answer.status < 300 || request.takes?.includes(answer.status)) {
        return await read(answer);
      }
      const refusal = await readRefusal(answer);
      if (lessons > 0) {
        if (refusal.status === 401 && token !== null && await tokens?.renew(token)) continue;
        if (
          refusal.status === 400 && /requester pays/i.test(refusal.message) && project !== undefined
        ) {
          this.#payer = project;
          continue;
        }
      }
      const error = refused(request.what, refusal);
      if (error.code === "unavailable") throw new Transient(error, retryAfter(answer.headers));
      throw error;
    }
  }

  async #send(request: GcsRequest, token: string | null): Promise<HttpResponse> {
    const { method, body, signal, timeoutMs } = request;
    const url = new URL(request.url);
    if (this.#payer !== null) url.searchParams.set("userProject", this.#payer);
    // What is sent elsewhere goes without the token: the session of an upload is known by its URL.
    const known = url.origin === new URL(this.#options.endpoint).origin;
    const authorization = token === null || !known ? {} : { authorization: `Bearer ${token}` };
    return await this.#options.hosts.send(url, {
      method,
      headers: { ...request.headers, ...authorization },
      ...(body === undefined ? {} : { body: body() }),
      ...(signal === undefined ? {} : { signal }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    });
  }
}

/** What `answer` says. Its body is read. */
export async function readRefusal(answer: HttpResponse): Promise<GcsRefusal> {
  const text = await textOf(answer);
  const { status } = answer;
  try {
    const { error } = errorBody.parse(JSON.parse(text));
    return { status, reason: error.errors[0]?.reason ?? "", message: error.message };
  } catch {
    // A proxy's page, or plain text.
    return { status, reason: "", message: text };
  }
}

const RATES = new Set([
  "rateLimitExceeded",
  "userRateLimitExceeded",
  "backendError",
  "internalError",
]);

/** `refusal`, of `what`, as an error: `unavailable` when it may pass. */
export function refused(what: string, refusal: GcsRefusal): SubletError {
  const { status, reason, message } = refusal;
  const said = excerpt(message);
  const told = `${what}: GCS answered ${status}${said === "" ? "" : ` (${said})`}`;
  const cure = cureOf(refusal);
  return new SubletError(codeOf(status, reason), cure === null ? told : `${told}: ${cure}`);
}

function codeOf(status: number, reason: string): ErrorCode {
  const passes = status >= 500 && status !== 501 || status === 429 || status === 408 ||
    RATES.has(reason);
  return passes ? "unavailable" : "config";
}

function cureOf({ status, reason, message }: GcsRefusal): string | null {
  if (status === 401) {
    return "the credentials are not good: check plugins.cas.credentials_file, or GOOGLE_APPLICATION_CREDENTIALS";
  }
  if (status === 404) return "there is no such bucket: create it, or check plugins.cas.bucket";
  if (status === 400 && /requester pays/i.test(message)) {
    return "set plugins.cas.project to the project that pays for the requests";
  }
  if (status === 403 && !RATES.has(reason)) {
    return "these credentials may not do that: give them the role Storage Object User (roles/storage.objectUser) on the bucket";
  }
  return null;
}
