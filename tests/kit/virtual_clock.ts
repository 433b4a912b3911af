/** @module A clock whose time a test advances by hand. */

import type { Clock } from "../../lib/home/mod.ts";

interface Timer {
  readonly due: number;
  readonly run: () => void;
}

/** Let everything that can go on without time passing go on: promises, and the database's transactions. */
export async function settle(turns = 12): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

/** Virtual time. Timers fire in order of their due time, then of their making. */
export class VirtualClock implements Clock {
  #monotonic = 1000;
  #wall: number;
  #timers: Timer[] = [];

  /** `wall` is the wall time at first, milliseconds since 1970. */
  constructor(wall = 1_700_000_000_000) {
    this.#wall = wall;
  }

  now(): number {
    return this.#wall;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { due: this.#monotonic + Math.max(0, ms), run };
    this.#timers.push(timer);
    return () => this.#timers = this.#timers.filter((each) => each !== timer);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const end = () => {
        cancel();
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.after(ms, end);
      signal?.addEventListener("abort", end);
    });
  }

  /** How many timers are set. */
  get timers(): number {
    return this.#timers.length;
  }

  /** Let `ms` pass: fire what is due at its own moment, and let each do all it can before the next. */
  async advance(ms: number): Promise<void> {
    await settle();
    const end = this.#monotonic + ms;
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.lapse(Math.max(0, next.due - this.#monotonic));
      await this.#fire(next);
    }
    this.lapse(end - this.#monotonic);
    await settle();
  }

  /** Let `ms` pass in which nothing runs, as in a process that was stopped. What is due fires late, on `advance`. */
  lapse(ms: number): void {
    this.#monotonic += ms;
    this.#wall += ms;
  }

  /** Forget every timer, as when the process that set them dies. */
  dropTimers(): void {
    this.#timers = [];
  }

  /** Set the wall clock forward or back, alone. */
  jumpWall(ms: number): void {
    this.#wall += ms;
  }

  #next(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.due <= end && (next === undefined || timer.due < next.due)) next = timer;
    }
    return next;
  }

  async #fire(timer: Timer): Promise<void> {
    this.#timers = this.#timers.filter((each) => each !== timer);
    timer.run();
    await settle();
  }
}
