/** @module Calls of a bucket's service: the clients of its hosts, and what is tried again. */

import {
  type Clock,
  type Env,
  type ErrorCode,
  isError,
  messageOf,
  SubletError,
} from "../home/mod.ts";
import {
  type HttpClient,
  type HttpRequest,
  type HttpResponse,
  openHttpClient,
  proxyFor,
} from "../net/mod.ts";
import { Retry } from "./http_calls.ts";

/** The most of an answer that is read as text. */
const MAX_TEXT = 16 * 1024 * 1024;

/** A failure that may pass. */
export class Transient extends Error {
  constructor(readonly error: SubletError, readonly atLeastMs = 0) {
    super(error.message, { cause: error });
  }
}

/** The clients of a service's hosts, made when they are first dialed. */
export class Hosts implements Disposable {
  readonly #clients = new Map<string, HttpClient>();
  readonly #env: Env;
  readonly #ca: string | undefined;

  /** `env`: where `SSL_CERT_FILE`, `HTTPS_PROXY` and `NO_PROXY` are looked up. `ca` goes before its roots. */
  constructor(env: Env, ca?: string) {
    this.#env = env;
    this.#ca = ca;
  }

  /** Send `request` to `url`, which is the path, too. One try. */
  async send(url: URL, request: Omit<HttpRequest, "path">): Promise<HttpResponse> {
    let client = this.#clients.get(url.origin);
    if (client === undefined) {
      const proxy = proxyFor(url, this.#env);
      client = openHttpClient({
        server: url.origin,
        env: this.#env,
        ...(this.#ca === undefined ? {} : { ca: this.#ca }),
        ...(proxy === null ? {} : { proxy }),
      });
      this.#clients.set(url.origin, client);
    }
    return await client.request({ ...request, path: url.pathname + url.search });
  }

  [Symbol.dispose](): void {
    for (const client of this.#clients.values()) client[Symbol.dispose]();
  }
}

/**
 * What `attempt` comes to, tried again after a {@linkcode Transient} failure, or none at all, for a minute, unless it is
 * made only `once`. Throws `unavailable` when that lasts, `cancelled` when the signal fires, and every other error as it
 * is.
 */
export async function persist<T>(
  what: string,
  clock: Clock,
  signal: AbortSignal | undefined,
  attempt: () => Promise<T>,
  once = false,
): Promise<T> {
  const retry = new Retry(clock);
  const stopIfAborted = () => {
    if (signal?.aborted) {
      throw new SubletError("cancelled", `${what} was cancelled`, { cause: signal.reason });
    }
  };
  while (true) {
    stopIfAborted();
    let failure: Transient;
    try {
      return await attempt();
    } catch (error) {
      stopIfAborted();
      failure = transient(what, error);
    }
    if (once || !await retry.next(failure.atLeastMs, signal)) throw failure.error;
  }
}

function transient(what: string, error: unknown): Transient {
  if (error instanceof Transient) return error;
  if (!isError(error, "unreachable")) throw error;
  return new Transient(
    new SubletError("unavailable", `${what}: ${messageOf(error)}`, { cause: error }),
  );
}

/** The body of `answer` as text. Throws {@linkcode Transient} when it breaks off. */
export async function textOf(answer: HttpResponse): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  for await (const bytes of answer.stream()) {
    length += bytes.length;
    if (length > MAX_TEXT) throw new SubletError("unavailable", "an answer has no end");
    text += decoder.decode(bytes, { stream: true });
  }
  return text + decoder.decode();
}

/** `headers` as a record. */
export function recordOf(headers: Headers): Record<string, string> {
  return Object.fromEntries(headers.entries());
}

/** What a refusal says, cut short and without line breaks, for messages. */
export function excerpt(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}

/** An error of `code` that says what failed and why. */
export function refusal(code: ErrorCode, what: string, why: string): SubletError {
  return new SubletError(code, `${what}: ${why}`);
}
