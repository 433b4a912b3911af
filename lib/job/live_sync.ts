/** @module What a job writes goes to the server while it runs: each stream a few seconds after something was written. */

import { type Clock, type Log, messageOf } from "../home/mod.ts";
import type { LiveStream, Progress } from "./live_stream.ts";

/** How often streams are looked at, milliseconds: what is written shows after that. */
const EVERY_MS = 2_000;
/** How long the last of it is tried to be sent, milliseconds: the report has all of it. */
const LAST_MS = 10_000;
/** The longest wait after a failure, milliseconds. What is written shows at least so often while the server answers. */
const MAX_WAIT_MS = 30_000;

/** What {@linkcode LiveSync} needs. */
export interface LiveSyncOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly lease: number;
  /** Milliseconds between two looks. Default 2,000. */
  readonly everyMs?: number;
  /** Remembers how far the streams are, for a later process. */
  readonly remember?: (progress: Readonly<Record<string, Progress>>) => Promise<void>;
}

/** Follows streams until it is closed. */
export class LiveSync {
  readonly #options: LiveSyncOptions;
  readonly #streams: LiveStream[] = [];
  readonly #over = new AbortController();
  /** Nothing is remembered any more: the place for that may be gone. */
  #closed = false;
  readonly #loop: Promise<void>;

  constructor(options: LiveSyncOptions) {
    this.#options = options;
    this.#loop = this.#run();
  }

  /** Follow `stream` as well. */
  add(stream: LiveStream): void {
    this.#streams.push(stream);
  }

  /** Stop. With `last`, everything that was written is sent first, if the server takes it within ten seconds. */
  async close(last: boolean): Promise<void> {
    this.#over.abort();
    const { clock } = this.#options;
    const late = new AbortController();
    const work = this.#loop.then(() => last ? this.#stepAll(true) : true);
    await Promise.race([work, clock.sleep(LAST_MS, late.signal)]);
    late.abort();
    this.#closed = true;
  }

  async #run(): Promise<void> {
    const { clock, everyMs = EVERY_MS } = this.#options;
    const { signal } = this.#over;
    let wait = everyMs;
    while (true) {
      await clock.sleep(wait, signal);
      if (signal.aborted) return;
      wait = await this.#stepAll(false) ? everyMs : Math.min(wait * 2, MAX_WAIT_MS);
    }
  }

  /** One look at each stream; whether all went well. */
  async #stepAll(last: boolean): Promise<boolean> {
    const { log, lease, remember } = this.#options;
    let well = true;
    let any = false;
    for (const stream of this.#streams) {
      try {
        any = await stream.step(last) || any;
      } catch (error) {
        well = false;
        log.event("job.stream_unsent", { lease, stream: stream.name, error: messageOf(error) });
      }
    }
    if (any && remember !== undefined && !this.#closed) {
      try {
        await remember(this.#progress());
      } catch (error) {
        log.event("job.stream_unremembered", { lease, error: messageOf(error) });
      }
    }
    return well;
  }

  #progress(): Record<string, Progress> {
    const progress: [string, Progress][] = [];
    for (const stream of this.#streams) {
      const at = stream.progress;
      if (at !== null) progress.push([stream.name, at]);
    }
    return Object.fromEntries(progress);
  }
}
