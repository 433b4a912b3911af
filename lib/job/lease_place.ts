/** @module The directory of one lease of a job, beneath the worker's home. */

import { join } from "node:path";
import {
  isError,
  lstatBeneath,
  mkdirBeneath,
  openBeneath,
  removeBeneath,
  writeBeneath,
} from "../home/mod.ts";

/** What is the worker's alone, and no log. */
export const PRIVATE = ".run";
/** The name of a checkout. */
export const WORKTREE = "worktree";
export const WHAT = "place of the job";

/**
 * `<home>/<place>/lease-<lease>`, with `.run` in it. The lease in its name keeps a job that was queued again away from
 * what a stale one left.
 */
export class LeasePlace {
  readonly home: string;
  /** Beneath the home. */
  readonly relative: string;
  /** Absolute. */
  readonly root: string;

  constructor(home: string, job: { readonly place: string }, lease: number) {
    this.home = home;
    this.relative = `${job.place}/lease-${lease}`;
    this.root = join(home, this.relative);
  }

  /** Whether it is there. */
  get exists(): boolean {
    return lstatBeneath(this.home, this.relative, { what: WHAT }) !== null;
  }

  /** Make it, which nothing of the job has touched yet, and keep `tag` for a later process of this worker to find. */
  make(tag: string): void {
    mkdirBeneath(this.home, `${this.relative}/${PRIVATE}`, { what: WHAT });
    // At once, and not through a temporary file: the directory is fresh, and a job waits.
    Deno.writeTextFileSync(join(this.root, PRIVATE, "tag"), tag, { createNew: true, mode: 0o600 });
  }

  /** The tag that `make` kept, or null. */
  async tag(): Promise<string | null> {
    const bytes = await this.read("tag", 200);
    const tag = bytes === null ? "" : new TextDecoder().decode(bytes);
    return /^[0-9a-f-]{8,64}$/.test(tag) ? tag : null;
  }

  /** The file `name` of {@linkcode PRIVATE}, or null when no such file is there, or it is larger than `max` bytes. */
  async read(name: string, max: number): Promise<Uint8Array<ArrayBuffer> | null> {
    try {
      const path = `${this.relative}/${PRIVATE}/${name}`;
      await using file = await openBeneath(this.home, path, { what: WHAT });
      return await file.bytes(max);
    } catch (error) {
      if (isError(error, "not_found", "unsafe_path", "too_large")) return null;
      throw error;
    }
  }

  /** Write the file `name` of {@linkcode PRIVATE}, in whole or not at all. */
  async write(
    name: string,
    data: Uint8Array | string,
    options: { readonly mode?: number; readonly sync?: boolean } = {},
  ): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const path = `${this.relative}/${PRIVATE}/${name}`;
    await writeBeneath(this.home, path, bytes, { what: WHAT, ...options });
  }

  /** Remove it with all that is in it. */
  async remove(): Promise<void> {
    await removeBeneath(this.home, this.relative, { what: WHAT });
  }
}
