/** @module Slowing down an address that keeps failing to say who it is. */

import type { Clock } from "../home/mod.ts";

/** Failures that an address may have at once, and how many it gets back a second. */
const BURST = 20;
const PER_SECOND = 1;
/** Addresses that are remembered; the one that failed longest ago is forgotten first. */
const MAX_ADDRESSES = 4_096;

interface Bucket {
  left: number;
  at: number;
}

/** Counts failed authentications by address. Whoever brings a good token is never slowed down. */
export class AuthThrottle {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Record a failure of `address`; whether it had too many by now. */
  failed(address: string): boolean {
    const now = this.#clock.monotonic();
    const old = this.#buckets.get(address) ?? { left: BURST, at: now };
    const left = Math.min(BURST, old.left + (now - old.at) / 1000 * PER_SECOND);
    this.#buckets.delete(address);
    this.#buckets.set(address, { left: Math.max(0, left - 1), at: now });
    if (this.#buckets.size > MAX_ADDRESSES) {
      const oldest = this.#buckets.keys().next().value;
      if (oldest !== undefined) this.#buckets.delete(oldest);
    }
    return left < 1;
  }
}
