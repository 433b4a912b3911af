/** @module A clock that moves only when a test says so. */

import { setImmediate } from "node:timers";
import type { Clock } from "../../lib/home/mod.ts";

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** Let everything run that waits for nothing but other code: every microtask, and what those start. */
export async function settle(turns = 3): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    await new Promise<void>((resolve) => void setImmediate(() => resolve()));
  }
}

/** {@linkcode Clock} by hand. Timers run on its monotonic time, in order, each settled before the next. */
export class VirtualClock implements Clock {
  #wall = Date.UTC(2030, 0, 1);
  #monotonic = 1_000_000;
  #order = 0;
  readonly #timers = new Set<Timer>();

  now(): number {
    return this.#wall;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#monotonic + Math.max(ms, 0), order: this.#order++, run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const finish = () => {
        cancel();
        signal?.removeEventListener("abort", finish);
        resolve();
      };
      const cancel = this.after(ms, finish);
      signal?.addEventListener("abort", finish);
    });
  }

  /** How many timers wait. */
  get waiting(): number {
    return this.#timers.size;
  }

  /** Let `ms` milliseconds pass, running what falls due. */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonic + ms;
    await settle();
    while (true) {
      const next = [...this.#timers].filter((timer) => timer.at <= end)
        .sort((a, b) => a.at - b.at || a.order - b.order)[0];
      if (next === undefined) break;
      this.#pass(next.at - this.#monotonic);
      this.#timers.delete(next);
      next.run();
      await settle();
    }
    this.#pass(end - this.#monotonic);
    await settle();
  }

  /** Set the wall clock forward (or back) by `ms` milliseconds. */
  jump(ms: number): void {
    this.#wall += ms;
  }

  /** The machine sleeps for `ms` milliseconds: wall time goes on, monotonic time and timers do not. */
  suspend(ms: number): void {
    this.#wall += ms;
  }

  #pass(ms: number): void {
    this.#monotonic += ms;
    this.#wall += ms;
  }
}
