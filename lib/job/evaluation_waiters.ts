/** @module Who waits for an evaluation, an agent or a job: woken by the commit that changes it, at no cost meanwhile. */

import type { Clock } from "../home/mod.ts";

/** Callers that wait, by what they wait for. */
export class Waiters {
  readonly #waiting = new Map<number, Set<() => void>>();

  /** How many wait. */
  get size(): number {
    let size = 0;
    for (const each of this.#waiting.values()) size += each.size;
    return size;
  }

  /** Call `wake` at each change of `id`, until the function that is returned is called. */
  subscribe(id: number, wake: () => void): () => void {
    const waiting = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiting.add(wake));
    return () => {
      waiting.delete(wake);
      if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id);
    };
  }

  /** `id` changed. */
  wake(id: number): void {
    for (const wake of [...this.#waiting.get(id) ?? []]) wake();
  }
}

/** What {@linkcode waitUntil} waits for. */
export interface Awaited<T> {
  readonly clock: Clock;
  /** Call the function at each change, until the one that is returned is called. */
  subscribe(wake: () => void): () => void;
  read(): Promise<T>;
  done(value: T): boolean;
}

/** What `of` reads once it is done, or as it is after `ms` milliseconds or when `signal` aborts. */
export async function waitUntil<T>(of: Awaited<T>, ms: number, signal: AbortSignal): Promise<T> {
  let wake = () => {};
  let late = ms <= 0 || signal.aborted;
  const giveUp = () => {
    late = true;
    wake();
  };
  const unsubscribe = of.subscribe(() => wake());
  const cancel = late ? () => {} : of.clock.after(ms, giveUp);
  signal.addEventListener("abort", giveUp);
  try {
    while (true) {
      const changed = new Promise<void>((resolve) => wake = resolve);
      const found = await of.read();
      if (late || of.done(found)) return found;
      await changed;
    }
  } finally {
    unsubscribe();
    cancel();
    signal.removeEventListener("abort", giveUp);
  }
}
