/** @module How many bytes a token has moved lately. */

import type { Clock } from "../home/mod.ts";

/** How many bytes a token may move. */
export interface Rates {
  /** Bytes a second, up and down together. Default: no bound. */
  readonly bytesPerSecond?: number;
  /** Bytes that it may upload within a day. Default: no bound. */
  readonly bytesPerDay?: number;
}

const DAY_MS = 24 * 60 * 60 * 1000;

/** A bucket of bytes that fills up again at a steady rate. It may be overdrawn. */
class Bucket {
  readonly #clock: Clock;
  readonly #perMs: number;
  readonly #size: number;
  #left: number;
  #at: number;

  /** `size` bytes in `ms` milliseconds. */
  constructor(clock: Clock, size: number, ms: number) {
    this.#clock = clock;
    this.#size = this.#left = size;
    this.#perMs = size / ms;
    this.#at = clock.monotonic();
  }

  /** Take `bytes`; the milliseconds until it is no longer overdrawn. */
  take(bytes: number): number {
    const now = this.#clock.monotonic();
    this.#left = Math.min(this.#size, this.#left + (now - this.#at) * this.#perMs) - bytes;
    this.#at = now;
    return this.#left >= 0 ? 0 : -this.#left / this.#perMs;
  }
}

/** What counts bytes. */
export interface Meter {
  /** Count `bytes`; the milliseconds to wait before more may follow. */
  count(bytes: number, upload: boolean): number;
}

/** What one token uses. */
export class TokenUse implements Meter {
  /** Transfers under way. */
  transfers = 0;
  readonly #second: Bucket | null;
  readonly #day: Bucket | null;

  constructor({ bytesPerSecond, bytesPerDay }: Rates, clock: Clock) {
    this.#second = bytesPerSecond === undefined ? null : new Bucket(clock, bytesPerSecond, 1000);
    this.#day = bytesPerDay === undefined ? null : new Bucket(clock, bytesPerDay, DAY_MS);
  }

  count(bytes: number, upload: boolean): number {
    if (upload) this.#day?.take(bytes);
    return this.#second?.take(bytes) ?? 0;
  }

  /** What is used up, and the milliseconds until it no longer is; 0: nothing is. */
  exhausted(upload: boolean): [what: string, waitMs: number] {
    const second = this.#second?.take(0) ?? 0;
    if (second > 0) return ["its rate of bytes a second", second];
    return ["what it may upload in a day", upload ? this.#day?.take(0) ?? 0 : 0];
  }
}
