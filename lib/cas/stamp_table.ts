/** @module What is known of very many files, in a few numbers each: a map of objects takes ten times the memory. */

import type { Stamp } from "./stamp.ts";

/** A stamp without its size, which whoever asks knows, and without what does not tell whether a file is the same. */
export type Mark = Pick<Stamp, "inode" | "mode" | "mtime">;

const FIRST = 1024;
/** Numbers of a slot: the name's hash, the inode, the time. */
const WIDTH = 3;

/**
 * Marks by name: some 50 bytes each, whatever the name's length. Of two names with one hash, of 53 bits, the later one
 * counts; to whoever asks for the other, its file looks changed.
 */
export class StampTable {
  #slots = new Float64Array(FIRST * WIDTH);
  #modes = new Uint16Array(FIRST);
  #used = 0;

  get(name: string): Mark | null {
    const slot = this.#find(hashOf(name));
    const inode = this.#slots[slot * WIDTH + 1] ?? NaN;
    if (this.#slots[slot * WIDTH] === 0 || Number.isNaN(inode)) return null;
    return { inode, mode: this.#modes[slot] ?? 0, mtime: this.#slots[slot * WIDTH + 2] ?? 0 };
  }

  set(name: string, { inode, mode, mtime }: Mark): void {
    this.#put(hashOf(name), inode, mode, mtime);
  }

  delete(name: string): void {
    const slot = this.#find(hashOf(name));
    // The slot stays taken: others may have been put behind it.
    if (this.#slots[slot * WIDTH] !== 0) this.#slots[slot * WIDTH + 1] = NaN;
  }

  #put(hash: number, inode: number, mode: number, mtime: number): void {
    const slot = this.#find(hash);
    if (this.#slots[slot * WIDTH] === 0) this.#used++;
    this.#slots.set([hash, inode, mtime], slot * WIDTH);
    this.#modes[slot] = mode;
    if (this.#used * 2 > this.#modes.length) this.#grow();
  }

  /** The slot of `hash`, or the free one where it belongs. */
  #find(hash: number): number {
    const last = this.#modes.length - 1;
    let slot = hash & last;
    while (true) {
      const found = this.#slots[slot * WIDTH];
      if (found === hash || found === 0) return slot;
      slot = (slot + 1) & last;
    }
  }

  #grow(): void {
    const [slots, modes] = [this.#slots, this.#modes];
    this.#slots = new Float64Array(slots.length * 2);
    this.#modes = new Uint16Array(modes.length * 2);
    this.#used = 0;
    for (let slot = 0; slot < modes.length; slot++) {
      const at = slot * WIDTH;
      const [hash, inode] = [slots[at] ?? 0, slots[at + 1] ?? NaN];
      if (hash === 0 || Number.isNaN(inode)) continue;
      this.#put(hash, inode, modes[slot] ?? 0, slots[at + 2] ?? 0);
    }
  }
}

/** A whole number from 1 to 2^53 - 1. */
function hashOf(name: string): number {
  let low = 0x811c9dc5;
  let high = 0x9e3779b9;
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high ^ code, 0x85ebca6b) ^ (high >>> 15);
  }
  return (high >>> 11) * 2 ** 32 + (low >>> 0) || 1;
}
