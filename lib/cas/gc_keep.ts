/** @module Which blobs a store said lately that it has: whoever was told so may refer to them without a put. */

import type { Cid } from "./contract.ts";

/** A blob whose age was renewed is not looked at again for so many milliseconds. */
export const KEEP_EVERY_MS = 30 * 60 * 1000;

/** The most blobs that are remembered. */
const CAPACITY = 32_768;

/** The digest's characters, whatever the codec. */
function keyOf(cid: Cid): string {
  return cid.slice(7);
}

/** When this process last renewed the age of blobs. */
export class KeptLately {
  readonly #at = new Map<string, number>();
  readonly #everyMs: number;

  constructor(everyMs: number = KEEP_EVERY_MS) {
    this.#everyMs = everyMs;
  }

  /** Whether the age of the blob was renewed so lately that it need not be again. */
  has(cid: Cid): boolean {
    const at = this.#at.get(keyOf(cid));
    if (at === undefined) return false;
    // The wall clock, since a machine may sleep; it may also be set back.
    const age = Date.now() - at;
    return age >= 0 && age < this.#everyMs;
  }

  /** The blob's age was renewed at `at` (Unix ms). */
  add(cid: Cid, at: number = Date.now()): void {
    if (this.#everyMs === 0) return;
    const name = keyOf(cid);
    this.#at.delete(name);
    this.#at.set(name, at);
    for (const oldest of this.#at.keys()) {
      if (this.#at.size <= CAPACITY) break;
      this.#at.delete(oldest);
    }
  }
}
