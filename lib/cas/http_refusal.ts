/** @module How the store's HTTP service refuses: `{code, message}`, where the message names the blob. */

import { type Clock, isError, type Log, messageOf, SubletError } from "../home/mod.ts";
import { onError } from "../net/mod.ts";
import { isCid } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { TryLater } from "./http_limits.ts";

/** So many bytes of an upload that is refused are taken, and for so long, so that its sender can read why. */
const MAX_DRAIN = 64 * 1024 * 1024;
const DRAIN_MS = 5_000;

/** The text for a blob that is not there. */
export function lacks(cid: Cid): string {
  return `the store has no blob ${cid}`;
}

/** The store lacks the blob. */
export function absent(cid: Cid): SubletError {
  return new SubletError("not_found", lacks(cid));
}

/** A refusal with headers of its own. */
export class Refusal extends SubletError {
  constructor(
    code: ConstructorParameters<typeof SubletError>[0],
    message: string,
    readonly headers: Readonly<Record<string, string>>,
    readonly httpStatus?: number,
  ) {
    super(code, message);
  }

  override get status(): number {
    return this.httpStatus ?? super.status;
  }
}

/** Answers failures of requests, and logs those of our own. */
export class Refusals {
  readonly #log: (
    error: Error,
    c: { req: { readonly method: string; readonly path: string } },
  ) => Response;
  readonly #clock: Clock;

  constructor(log: Log, clock: Clock) {
    this.#log = onError("api", log);
    this.#clock = clock;
  }

  /** The answer to `request`, which failed with `error`. What is left of its body is taken first, within reason. */
  async answer(request: Request, path: string, error: unknown): Promise<Response> {
    if (!isError(error, "slow_request")) await this.#drain(request);
    const known = named(error instanceof Error ? error : new Error(messageOf(error)), path);
    const req = { method: request.method, path };
    let answer = this.#log(known, { req });
    if (isError(known, "internal")) answer = internal(known, answer);
    if (error instanceof TryLater) answer.headers.set("retry-after", String(error.seconds));
    if (error instanceof Refusal) {
      for (const [name, value] of Object.entries(error.headers)) answer.headers.set(name, value);
    }
    return request.method === "HEAD" ? await withLength(answer) : answer;
  }

  /**
   * Take what is left of a request's body, within reason: an answer that comes before the end of it can be lost, since
   * the connection breaks under the sender. One that waits to be asked for its body is not.
   */
  async #drain(request: Request): Promise<void> {
    // Even a look at the body asks for it.
    if (request.headers.has("expect")) return;
    const { body } = request;
    if (body === null || body.locked) return;
    const reader = body.getReader();
    const stop = this.#clock.after(DRAIN_MS, () => void reader.cancel().catch(() => {}));
    try {
      for (let left = MAX_DRAIN; left > 0;) {
        const { done, value } = await reader.read();
        if (done) return;
        left -= value.length;
      }
    } catch {
      // The sender has gone: nobody waits for the answer.
    } finally {
      stop();
    }
  }
}

/** The `answer` to a failure of our own names the blob, too, but not what went wrong in here. */
function internal(error: SubletError, answer: Response): Response {
  const blob = /^blob [a-z2-7]+/.exec(error.message)?.[0] ?? "the store";
  const message = `${blob}: the server failed: its log has the reason`;
  return Response.json({ code: "internal", message }, { status: answer.status });
}

/** `answer`, with the length that a GET's would have: the answer to a HEAD loses its body, and would say 0. */
async function withLength(answer: Response): Promise<Response> {
  const body = await answer.bytes();
  answer.headers.set("content-length", String(body.length));
  return new Response(null, answer);
}

/** `error`, with the blob that `path` names in its message. */
function named(error: Error, path: string): Error {
  const cid = path.slice(path.lastIndexOf("/") + 1);
  if (!isCid(cid)) return error;
  const known = error instanceof SubletError && error.code !== "internal";
  if (known && error.message.includes(cid.slice(7))) return error;
  if (error instanceof Refusal) {
    return new Refusal(
      error.code,
      `blob ${cid}: ${error.message}`,
      error.headers,
      error.httpStatus,
    );
  }
  return new SubletError(known ? error.code : "internal", `blob ${cid}: ${messageOf(error)}`, {
    cause: error,
  });
}
