/** @module The calls of piloop's client: what it tries again, what it understands, and what ends it. */

import type { Clock } from "../../lib/home/mod.ts";
import type { HttpClient, HttpResponse } from "../../lib/net/mod.ts";
import type { Timing } from "../../lib/lease/wire.ts";

/** The server refused the worker for good, as far as it understands. */
export class Dismissed extends Error {}

/** A refusal that it understands. */
export class Refused extends Error {
  constructor(readonly code: string, message: string) {
    super(message);
  }
}

/** Nobody answered for as long as it tries. */
class GivenUp extends Error {}

/** An answer, and (monotonic) when the request that it answers was sent. */
export interface Answered {
  readonly value: unknown;
  readonly sent: number;
}

const UNDERSTOOD = ["stale_lease", "not_addressed", "missing_blobs", "not_sent"];
const FIRST_MS = 200;
const MOST_MS = 5_000;

/** Calls over HTTP, each tried with the same body until it is answered. */
export class PiloopCalls {
  readonly #stop = new AbortController();
  #mostMs = 280_000;

  constructor(
    private readonly http: HttpClient,
    private readonly clock: Clock,
    private readonly over: AbortSignal,
  ) {}

  get stopping(): boolean {
    return this.#stop.signal.aborted;
  }

  /** From now on each call is tried once. */
  stop(): void {
    this.#stop.abort();
  }

  giveUpAfter({ renew, toleration }: Timing): void {
    this.#mostMs = (toleration - 2 * renew) * 1000;
  }

  async call(call: string, body: unknown, wait = 0): Promise<Answered> {
    const began = this.clock.monotonic();
    for (let delay = FIRST_MS;; delay = Math.min(delay * 2, MOST_MS)) {
      const answered = await this.#try(call, body, wait);
      if (answered !== null) return answered;
      if (this.stopping || this.clock.monotonic() - began >= this.#mostMs) {
        throw new GivenUp(call);
      }
      await this.clock.sleep(delay, this.#stop.signal);
    }
  }

  /** One try; null when it is to be made again. */
  async #try(call: string, body: unknown, wait: number): Promise<Answered | null> {
    const sent = this.clock.monotonic();
    const response = await this.http.request({
      method: "POST",
      path: `/v1/executor/${call}`,
      headers: { "content-type": "application/json" },
      body: new TextEncoder().encode(JSON.stringify(body)),
      timeoutMs: 30_000 + wait * 1000,
      signal: this.over,
    }).catch(() => null);
    if (response === null) return null;
    const { status } = response;
    if (status === 204) return { value: null, sent };
    const json = jsonOf(await textOf(response));
    if (status === 200) return json === undefined ? null : { value: json, sent };
    if (status < 400 || status >= 500 || status === 408 || status === 429) return null;
    const { error = "", detail = "" } = (json ?? {}) as { error?: string; detail?: string };
    if (status === 409 && UNDERSTOOD.includes(error)) throw new Refused(error, detail);
    throw new Dismissed(`${status} ${error} to ${call}: ${detail}`);
  }
}

async function textOf(response: HttpResponse): Promise<string> {
  return new TextDecoder().decode(await response.bytes());
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
