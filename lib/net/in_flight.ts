/** @module The requests that a server is answering, so that it can stop waiting for those that nobody waits for. */

interface Entry {
  readonly request: Request;
  readonly leave: () => void;
}

function gone(): Response {
  return new Response(null, { status: 503, headers: { "retry-after": "1" } });
}

/**
 * `Deno.serve` never ends its shutdown while a handler whose client has left is unsettled. This settles such answers
 * in the handler's place; what the handler answers later is dropped.
 */
export class InFlight {
  readonly #entries = new Set<Entry>();
  #closing = false;

  /** `answer`, unless it is given up before. */
  track(request: Request, answer: Promise<Response>): Promise<Response> {
    return new Promise((resolve) => {
      const entry = { request, leave: () => finish(gone()) };
      const finish = (response: Response) => {
        if (this.#entries.delete(entry)) resolve(response);
        else response.body?.cancel().catch(() => {});
      };
      this.#entries.add(entry);
      answer.then(finish, () => finish(gone()));
      if (this.#closing) leaveWhenGone(entry);
    });
  }

  /** Give up those whose client has left or leaves from now on. */
  leaveTheGone(): void {
    this.#closing = true;
    for (const entry of this.#entries) leaveWhenGone(entry);
  }

  /** Give up all. */
  leaveAll(): void {
    for (const entry of this.#entries) entry.leave();
  }
}

function leaveWhenGone({ request, leave }: Entry): void {
  if (request.signal.aborted) leave();
  else request.signal.addEventListener("abort", leave, { once: true });
}
