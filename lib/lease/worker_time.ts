/** @module Moments, waking and backoff of a worker's loops, on the ports' time. */

import type { Clock, Ids } from "../home/mod.ts";
import { SubletError } from "../home/mod.ts";

/** A moment on both clocks: monotonic time stands still while a machine is suspended, wall time may jump. */
export interface Mark {
  readonly monotonic: number;
  readonly wall: number;
}

/** Now. */
export function markNow(clock: Clock): Mark {
  return { monotonic: clock.monotonic(), wall: clock.now() };
}

/** Milliseconds since `mark`: the larger of the two clocks', so neither a suspend nor a clock set back hides any. */
export function since(clock: Clock, mark: Mark): number {
  return Math.max(clock.monotonic() - mark.monotonic, clock.now() - mark.wall);
}

/** The later of two moments, by the clock that never goes back. */
export function later(a: Mark, b: Mark): Mark {
  return b.monotonic > a.monotonic ? b : a;
}

/** A flag that one loop waits for. What is set while nobody waits counts for the next wait. */
export class Wake {
  #set = false;
  #waiter: (() => void) | null = null;

  set(): void {
    this.#set = true;
    this.#waiter?.();
  }

  /** Resolve once it is set, after `ms` milliseconds (null: never by time), or when `signal` aborts; then clear it. */
  async wait(clock: Clock, ms: number | null, signal: AbortSignal): Promise<void> {
    if (!this.#set && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const cancel = ms === null ? () => {} : clock.after(Math.max(ms, 0), () => finish());
        const finish = () => {
          cancel();
          signal.removeEventListener("abort", finish);
          this.#waiter = null;
          resolve();
        };
        this.#waiter = finish;
        signal.addEventListener("abort", finish);
      });
    }
    this.#set = false;
  }
}

/** A gate that loops wait at while it is shut. */
export class Gate {
  #open = false;
  #waiters: (() => void)[] = [];

  get isOpen(): boolean {
    return this.#open;
  }

  open(): void {
    this.#open = true;
    for (const resolve of this.#waiters.splice(0)) resolve();
  }

  shut(): void {
    this.#open = false;
  }

  /** Resolve once it is open, or when `signal` aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    while (!this.#open && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const finish = () => {
          signal.removeEventListener("abort", finish);
          resolve();
        };
        this.#waiters.push(finish);
        signal.addEventListener("abort", finish);
      });
    }
  }
}

/** Delays between tries: doubling from `first` to `most` milliseconds, each shortened by up to a quarter. */
export class Backoff {
  #next: number;

  constructor(
    private readonly ids: Ids,
    private readonly first = 200,
    private readonly most = 5_000,
  ) {
    this.#next = Math.min(first, most);
  }

  next(): number {
    const delay = this.#next;
    this.#next = Math.min(delay * 2, this.most);
    return delay * (1 - this.ids.random() / 4);
  }

  reset(): void {
    this.#next = Math.min(this.first, this.most);
  }
}

/**
 * What `call` answers, given up on after `ms` milliseconds (`unreachable`) or when `signal` aborts (`cancelled`): even
 * a call that ignores its signal cannot hang its caller.
 */
export function within<T>(
  clock: Clock,
  ms: number,
  signal: AbortSignal,
  what: string,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const own = new AbortController();
    const done = () => {
      cancel();
      signal.removeEventListener("abort", aborted);
    };
    const giveUp = (error: SubletError) => {
      done();
      reject(error);
      own.abort(error);
    };
    const aborted = () => giveUp(new SubletError("cancelled", `${what} was cut short`));
    const cancel = clock.after(
      ms,
      () => giveUp(new SubletError("unreachable", `${what}: no answer within ${ms / 1000} s`)),
    );
    if (signal.aborted) return aborted();
    signal.addEventListener("abort", aborted);
    (async () => await call(own.signal))().then(
      (value) => {
        done();
        resolve(value);
      },
      (error) => {
        done();
        reject(error);
      },
    );
  });
}
