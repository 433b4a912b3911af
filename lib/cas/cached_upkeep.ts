/** @module A cache's upkeep while it is open: now and then, and when it has grown. */

import type { Log } from "../home/mod.ts";

/** Milliseconds from opening to the first run, and from one run to the next. */
const FIRST_MS = 60_000;
const EVERY_MS = 60 * 60 * 1000;

/** A cache that has grown by this share of its bound since the last run is looked after at once. */
const GROWTH = 1 / 16;

/** Runs upkeep in the background, one run at a time. A run that fails is told to the log, and tried again later. */
export class Upkeeper implements AsyncDisposable {
  readonly #run: () => Promise<unknown>;
  readonly #maxBytes: number | null;
  readonly #log: Log;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #running: Promise<void> | null = null;
  #grown = 0;
  #closed = false;

  constructor(run: () => Promise<unknown>, maxBytes: number | null, log: Log) {
    this.#run = run;
    this.#maxBytes = maxBytes;
    this.#log = log;
    this.#wait(FIRST_MS);
  }

  /** So many bytes more are held. */
  grew(bytes: number): void {
    this.#grown += bytes;
    if (this.#maxBytes !== null && this.#grown > this.#maxBytes * GROWTH) this.#start();
  }

  #wait(ms: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#start(), ms);
    // A command that has ended does not wait for it.
    Deno.unrefTimer(this.#timer);
  }

  #start(): void {
    if (this.#closed || this.#running !== null) return;
    this.#grown = 0;
    this.#running = this.#run().then(() => {}, (error) => {
      this.#log.event("cas.upkeep_failed", { error });
    }).finally(() => {
      this.#running = null;
      if (!this.#closed) this.#wait(EVERY_MS);
    });
  }

  /** Wait for the run that is under way; there is no other. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#running;
  }
}
