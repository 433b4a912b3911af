/** @module Remembers which stored objects were read and checked, so that the next reader need not. */

/** How long a check counts, in milliseconds: disks may rot without a trace in a file's status. */
const LIFETIME = 10 * 60 * 1000;

/** A file that was written less than this many milliseconds before its check may change again without a trace. */
const GRAIN = 50;

/** The most objects that are remembered. */
const CAPACITY = 4096;

/** What was found of an object. */
export interface Finding {
  /** Bytes of the blob. Null: it is damaged. */
  readonly length: number | null;
}

interface Entry extends Finding {
  readonly file: string;
  readonly until: number;
}

/** What tells one state of a file's content from another. A change of its status alone, such as a new name, does not. */
function stateOf(info: Deno.FileInfo): string {
  return `${info.dev}:${info.ino}:${info.size}:${info.mtime?.getTime()}`;
}

/** The findings about objects, by name; the oldest make room. */
export class CheckedObjects {
  readonly #entries = new Map<string, Entry>();

  /** What is known of the object `name`, whose file has the status `info`. */
  find(name: string, info: Deno.FileInfo): Finding | null {
    const entry = this.#entries.get(name);
    if (entry === undefined) return null;
    if (entry.file === stateOf(info) && Date.now() < entry.until) return entry;
    this.#entries.delete(name);
    return null;
  }

  /** Remember that the object `name` had the status `info` at `since` (Unix ms), before it was read, and `found`. */
  add(name: string, info: Deno.FileInfo, since: number, found: Finding): void {
    const written = info.mtime?.getTime() ?? Infinity;
    if (since - written < GRAIN) return;
    this.#entries.delete(name);
    this.#entries.set(name, { ...found, file: stateOf(info), until: since + LIFETIME });
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= CAPACITY) break;
      this.#entries.delete(oldest);
    }
  }
}
