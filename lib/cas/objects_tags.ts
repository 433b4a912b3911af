/** @module Remembers which states of objects in a bucket were read and found whole. */

/** How long that counts, in milliseconds: the service looks after what it stores, and tells when it was written anew. */
const LIFETIME = 24 * 60 * 60 * 1000;

/** The most objects that are remembered. */
const CAPACITY = 32_768;

interface Entry {
  readonly tag: string;
  readonly length: number;
  readonly until: number;
}

/** Lengths of the blobs that were found whole, by name and tag of their objects; the oldest make room. */
export class WholeObjects {
  readonly #entries = new Map<string, Entry>();

  /** Whether anything is known of the object `name`. */
  knows(name: string): boolean {
    return this.#entries.has(name);
  }

  /** The length of the blob, when its object `name` was found whole in the state `tag`. */
  find(name: string, tag: string): number | null {
    const entry = this.#entries.get(name);
    if (entry === undefined) return null;
    if (tag !== "" && entry.tag === tag && Date.now() < entry.until) return entry.length;
    this.#entries.delete(name);
    return null;
  }

  /** It is not whole, whatever was found before. */
  forget(name: string): void {
    this.#entries.delete(name);
  }

  add(name: string, tag: string, length: number): void {
    if (tag === "") return;
    this.#entries.delete(name);
    this.#entries.set(name, { tag, length, until: Date.now() + LIFETIME });
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= CAPACITY) break;
      this.#entries.delete(oldest);
    }
  }
}
