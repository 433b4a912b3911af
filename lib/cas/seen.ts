/** @module Files that were stored before, and need not be read again when they are as they were. */

import type { Cid } from "./contract.ts";
import { sameStamp, type Stamp } from "./stamp.ts";

/** A file that changed this recently may change again without its times showing it. */
export const RACY_MS = 2_000;

/** A file as it was found. */
export interface SeenFile {
  /** Absolute. */
  readonly path: string;
  readonly stamp: Stamp;
  /** When it was found, before it was read: Unix ms. */
  readonly at: number;
}

/** What is remembered of files. */
export interface Seen {
  /** The blob of each of `files`, or null for one that is not known, or not as it was. */
  find(files: readonly SeenFile[]): Promise<(Cid | null)[]>;
  /** Remember the blob of a file, unless that had changed just before. */
  add(file: SeenFile, blob: Cid): Promise<void> | void;
  /** Write down what was added. */
  flush?(): Promise<void>;
}

/** What this process saw, and what others did: the index on disk does not trust files that are so new. */
export class SeenAnywhere implements Seen {
  readonly #here = new SeenFiles();
  readonly #elsewhere: Seen;

  constructor(elsewhere: Seen) {
    this.#elsewhere = elsewhere;
  }

  async find(files: readonly SeenFile[]): Promise<(Cid | null)[]> {
    const found = await this.#here.find(files);
    const unknown = files.filter((_, at) => found[at] === null);
    if (unknown.length === 0) return found;
    const others = (await this.#elsewhere.find(unknown)).values();
    return found.map((blob) => blob ?? others.next().value ?? null);
  }

  async add(file: SeenFile, blob: Cid): Promise<void> {
    this.#here.add(file, blob);
    await this.#elsewhere.add(file, blob);
  }

  async flush(): Promise<void> {
    await this.#elsewhere.flush?.();
  }
}

/** Lives as long as its process. */
export class SeenFiles implements Seen {
  readonly #seen = new Map<string, { stamp: Stamp; blob: Cid }>();

  find(files: readonly SeenFile[]): Promise<(Cid | null)[]> {
    return Promise.resolve(files.map(({ path, stamp }) => {
      const seen = this.#seen.get(path);
      if (seen === undefined || !sameStamp(seen.stamp, stamp)) return null;
      return seen.stamp.changed === stamp.changed ? seen.blob : null;
    }));
  }

  add({ path, stamp, at }: SeenFile, blob: Cid): void {
    if (at - stamp.mtime > RACY_MS) this.#seen.set(path, { stamp, blob });
  }
}
