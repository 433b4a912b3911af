/** @module A timer that is set to the earliest of the moments that it was asked for. */

import type { Clock } from "../home/mod.ts";

/** Calls `ring` once the clock's monotonic time has reached the earliest moment asked for since the last ring. */
export class Alarm {
  readonly #clock: Clock;
  readonly #ring: (due: number) => void;
  #due = Infinity;
  #cancel: (() => void) | null = null;

  /** `ring` gets the moment that was asked for; the clock's own says how late it is. */
  constructor(clock: Clock, ring: (due: number) => void) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** Ring at `due` (monotonic milliseconds), or earlier when an earlier moment is set already. */
  at(due: number): void {
    if (due >= this.#due) return;
    this.#cancel?.();
    this.#due = due;
    this.#cancel = this.#clock.after(Math.max(0, due - this.#clock.monotonic()), () => {
      this.#due = Infinity;
      this.#cancel = null;
      this.#ring(due);
    });
  }

  /** Forget what was asked for. */
  clear(): void {
    this.#cancel?.();
    this.#cancel = null;
    this.#due = Infinity;
  }
}
