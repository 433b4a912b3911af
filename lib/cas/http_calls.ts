/** @module Calls of a store's HTTP service: what is tried again and for how long, and what a refusal means. */

import {
  type Clock,
  type ErrorCode,
  ERRORS,
  isError,
  messageOf,
  SubletError,
  systemClock,
} from "../home/mod.ts";
import type { HttpClient, HttpRequest, HttpResponse } from "../net/mod.ts";
import { refusal } from "./http_wire.ts";

/** A call is tried again until this many milliseconds after its first try. */
const WINDOW_MS = 60_000;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;

/** Answers after which a call is tried again: too slow, too many, the server is busy, or a proxy cannot reach it. */
const TRANSIENT: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** The most of a refusal's body that is read. */
const MAX_REFUSAL = 16 * 1024;

/** A call, and how to make its body anew for each try. */
export interface CallRequest extends Omit<HttpRequest, "body"> {
  readonly body?: () => HttpRequest["body"] | Promise<HttpRequest["body"]>;
}

/** A try that failed in a way that another may not. */
export interface Failed {
  readonly failure: SubletError;
  /** Milliseconds that the server asks to wait. */
  readonly atLeastMs: number;
}

/** The waits between the tries of one call. */
export class Retry {
  readonly #clock: Clock;
  readonly #deadline: number;
  #wait = FIRST_WAIT_MS;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#deadline = clock.monotonic() + WINDOW_MS;
  }

  /** Wait before the next try, at least `atLeastMs`. False: the window is over. */
  async next(atLeastMs: number, signal?: AbortSignal): Promise<boolean> {
    const wait = Math.max(this.#wait, atLeastMs);
    if (this.#clock.monotonic() + wait > this.#deadline) return false;
    this.#wait = Math.min(LONGEST_WAIT_MS, this.#wait * 2);
    await this.#clock.sleep(wait, signal);
    return true;
  }
}

/** A store's HTTP service, as calls. */
export class HttpCalls {
  constructor(readonly client: HttpClient, readonly clock: Clock = systemClock) {}

  /**
   * The answer to `request`, tried again while the server cannot be reached or says so itself. Throws `unreachable` or
   * `unavailable` when that lasts, and `cancelled` when the signal fires. Any other status is an answer.
   */
  async call(request: CallRequest, retry = new Retry(this.clock)): Promise<HttpResponse> {
    while (true) {
      const tried = await this.once(request);
      if (!("failure" in tried)) return tried;
      if (!await retry.next(tried.atLeastMs, request.signal)) throw tried.failure;
      if (request.signal?.aborted) throw cancelled(request);
    }
  }

  /** The answer to one try of `request`, or why another may go better. Throws like {@linkcode HttpCalls.call}. */
  async once(request: CallRequest): Promise<HttpResponse | Failed> {
    const { body, ...rest } = request;
    try {
      const made = await body?.();
      const answer = await this.client.request(
        made === undefined ? rest : { ...rest, body: made },
      );
      if (!TRANSIENT.has(answer.status)) return answer;
      const atLeastMs = retryAfter(answer.headers);
      return { failure: await this.refused(request, answer), atLeastMs };
    } catch (error) {
      if (request.signal?.aborted) throw cancelled(request);
      if (!isError(error, "unreachable")) throw error;
      return { failure: error, atLeastMs: 0 };
    }
  }

  /** What the refusal `answer` to `request` means. Its body is read. */
  async refused(request: CallRequest, answer: HttpResponse): Promise<SubletError> {
    const { status } = answer;
    const text = new TextDecoder().decode(await readSome(answer));
    const parsed = refusal.safeParse(parseJson(text));
    const said = parsed.success ? parsed.data.message : text.slice(0, 500);
    const code = codeOf(status, parsed.success ? parsed.data.code : "");
    const where = `${this.client.url} answered ${request.method} ${request.path} with ${status}`;
    return new SubletError(code, said === "" ? where : `${where}: ${said}`);
  }
}

function cancelled(request: CallRequest): SubletError {
  return new SubletError("cancelled", `${request.method} ${request.path} was cancelled`, {
    cause: request.signal?.reason,
  });
}

/** The code of a refusal: the one that it names, or else one for its status. */
function codeOf(status: number, named: string): ErrorCode {
  if (status === 408) return "slow_request";
  if (status === 429) return "busy";
  if (TRANSIENT.has(status)) return "unavailable";
  if (Object.hasOwn(ERRORS, named)) return named as ErrorCode;
  if (status === 401) return "unauthenticated";
  if (status === 403) return "permission_denied";
  if (status === 404) return "not_found";
  if (status === 411) return "length_required";
  if (status === 413) return "too_large";
  return status >= 500 ? "unavailable" : "failed";
}

/** `Retry-After` in milliseconds, when it is a number of seconds. */
export function retryAfter(headers: Headers): number {
  const value = headers.get("retry-after")?.trim() ?? "";
  return /^\d{1,6}$/.test(value) ? Number(value) * 1000 : 0;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A proxy's page, most likely: its text is shown as it is.
    return null;
  }
}

async function readSome(answer: HttpResponse): Promise<Uint8Array> {
  const parts = new Uint8Array(MAX_REFUSAL);
  let length = 0;
  try {
    for await (const part of answer.stream()) {
      const room = part.subarray(0, MAX_REFUSAL - length);
      parts.set(room, length);
      length += room.length;
      if (length === MAX_REFUSAL) break;
    }
  } catch (error) {
    return new TextEncoder().encode(`(its body broke off: ${messageOf(error)})`);
  }
  return parts.subarray(0, length);
}
