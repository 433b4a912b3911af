/** @module The upkeep of a store while it is open: now and then, and when it has grown. */

import type { Clock, Log } from "../home/mod.ts";

/** Milliseconds from opening to the first run, and from one run to the next, where nobody says otherwise. */
const FIRST_MS = 60_000;
const EVERY_MS = 60 * 60 * 1000;

/** Runs are at least so many milliseconds apart, however fast the cache grows: each looks at all that it holds. */
const PAUSE_MS = 10_000;

/** A cache that has grown by this share of its bound since the last run is looked after. */
const GROWTH = 1 / 16;

/** What is looked after, and how. */
export interface UpkeepOptions {
  readonly run: () => Promise<unknown>;
  /** The bound of the cache, in bytes. Null: there is none. */
  readonly maxBytes: number | null;
  readonly firstMs?: number;
  readonly everyMs?: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** Runs upkeep in the background, one run at a time. A run that fails is told to the log, and tried again later. */
export class Upkeeper implements AsyncDisposable {
  readonly #options: UpkeepOptions;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #running: Promise<void> | null = null;
  #grown = 0;
  /** When the next run may start, by the monotonic clock. */
  #next = -Infinity;
  #closed = false;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    this.#wait(options.firstMs ?? FIRST_MS);
  }

  /** So many bytes more are held. */
  grew(bytes: number): void {
    this.#grown += bytes;
    if (this.#isDue() && this.#running === null) {
      this.#wait(Math.max(0, this.#next - this.#options.clock.monotonic()));
    }
  }

  #isDue(): boolean {
    const { maxBytes } = this.#options;
    return maxBytes !== null && this.#grown > maxBytes * GROWTH;
  }

  #wait(ms: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => this.#start(), ms);
    // A command that has ended does not wait for it.
    Deno.unrefTimer(this.#timer);
  }

  #start(): void {
    const { run, clock, log, everyMs = EVERY_MS } = this.#options;
    this.#grown = 0;
    this.#running = run().then(() => {}, (error) => {
      log.event("cas.upkeep_failed", { error });
    }).finally(() => {
      this.#running = null;
      this.#next = clock.monotonic() + PAUSE_MS;
      this.#wait(this.#isDue() ? PAUSE_MS : everyMs);
    });
  }

  /** Wait for the run that is under way; there is no other. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#running;
  }
}
