/** @module Small blobs that were read and checked lately, in memory, each good as long as its file is unchanged. */

import type { Cid } from "./contract.ts";

/** Larger blobs are not kept. */
const MAX_BLOB = 16 * 1024;

/** The most bytes, and the most blobs, that are kept; the oldest make room. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_BLOBS = 16_384;

/** How long a check counts, in milliseconds: see `CheckedObjects`. */
const LIFETIME = 10 * 60 * 1000;

/** A file that was written less than this many milliseconds before it was read may change again without a trace. */
const GRAIN = 50;

interface Entry {
  readonly path: string;
  readonly inode: number | null;
  readonly size: number;
  readonly mtime: number;
  readonly until: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

/** The cache. */
export class SmallCache {
  readonly #entries = new Map<Cid, Entry>();
  #bytes = 0;

  /** The bytes of `cid`, if they are known and its file is the one that was read. Nobody may change them. */
  find(cid: Cid): Uint8Array<ArrayBuffer> | null {
    const entry = this.#entries.get(cid);
    if (entry === undefined) return null;
    const info = status(entry.path);
    if (
      info !== null && info.ino === entry.inode && info.size === entry.size &&
      info.mtime?.getTime() === entry.mtime && Date.now() < entry.until
    ) return entry.data;
    this.#drop(cid, entry);
    return null;
  }

  /**
   * Read the object of `cid`, which is at `path`, by `read`, and keep what that gives, unless the file is too young for a later change of it
   * to show, or changes meanwhile.
   */
  fill(
    cid: Cid,
    path: string,
    read: () => Uint8Array<ArrayBuffer> | null,
  ): Uint8Array<ArrayBuffer> | null {
    const now = Date.now();
    const before = status(path);
    const data = read();
    if (before === null || data === null || data.length > MAX_BLOB) return data;
    const mtime = before.mtime?.getTime() ?? Infinity;
    if (now - mtime < GRAIN) return data;
    const old = this.#entries.get(cid);
    if (old !== undefined) this.#drop(cid, old);
    this.#entries.set(cid, {
      path,
      inode: before.ino,
      size: before.size,
      mtime,
      until: now + LIFETIME,
      data,
    });
    this.#bytes += data.length;
    this.#makeRoom();
    return data;
  }

  #makeRoom(): void {
    for (const [cid, entry] of this.#entries) {
      if (this.#bytes <= MAX_BYTES && this.#entries.size <= MAX_BLOBS) return;
      this.#drop(cid, entry);
    }
  }

  #drop(cid: Cid, entry: Entry): void {
    if (this.#entries.delete(cid)) this.#bytes -= entry.data.length;
  }
}

function status(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch {
    // Whoever reads the object finds out what is wrong with it.
    return null;
  }
}
