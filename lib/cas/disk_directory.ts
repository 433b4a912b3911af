/** @module The directory of a disk store: where its objects are, listing them, and dropping those that nobody needs. */

import { isError } from "../home/mod.ts";
import { nameToCid, objectName } from "./cid.ts";
import type { Cid, Collected, Held, Leftovers, Usage } from "./contract.ts";
import { sum, sweep } from "./disk_root.ts";
import { fileError, objectError } from "./files.ts";
import { DiskKeeper, newest } from "./gc_disk.ts";
import { usageOf } from "./usage.ts";

/** How a disk store is kept. */
export interface DirectoryOptions {
  /** The store's root. */
  readonly path: string;
  /** Temporary files older than this many milliseconds are removed when it opens, and by a sweep. Default: an hour. */
  readonly sweepAfterMs?: number;
  /** Blobs that were told to be there are kept from a collection's grace, but only once in so many milliseconds. */
  readonly keepEveryMs?: number;
}

/** Temporary files that nobody has written to for so many milliseconds are of a crash. */
export const STALE_MS = 60 * 60 * 1000;

/** `<root>/blake3/<name>/bytes.zst` for each blob, and `<root>/tmp`. */
export class DiskDirectory {
  protected readonly root: string;
  protected readonly objects: string;
  protected readonly temporary: string;
  protected readonly keeper: DiskKeeper;
  readonly #staleMs: number;

  constructor({ path: root, keepEveryMs, sweepAfterMs = STALE_MS }: DirectoryOptions) {
    this.root = root;
    this.objects = `${root}/blake3`;
    this.temporary = `${root}/tmp`;
    this.keeper = new DiskKeeper(root, keepEveryMs);
    this.#staleMs = sweepAfterMs;
  }

  protected directory(cid: Cid): string {
    return `${this.objects}/${objectName(cid)}`;
  }

  protected path(cid: Cid): string {
    return `${this.directory(cid)}/bytes.zst`;
  }

  async *list(): AsyncGenerator<Cid, void, undefined> {
    for await (const { cid } of this.held()) yield cid;
  }

  usage(): Promise<Usage> {
    return usageOf(this.held());
  }

  async release(cid: Cid): Promise<number> {
    try {
      const { size } = await Deno.stat(this.path(cid));
      // The directory stays, and with it what a cache keeps there.
      await Deno.remove(this.path(cid));
      return size;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return 0;
      throw fileError(error, `cannot drop blob ${cid}`, "unavailable");
    }
  }

  get keepEveryMs(): number {
    return this.keeper.everyMs;
  }

  async collect(cids: readonly Cid[], graceMs: number): Promise<Collected[]> {
    const freed = await this.keeper.collect(cids, graceMs);
    return [...freed].map(([cid, bytes]) => ({ cid, bytes }));
  }

  keptAt(cid: Cid): number | null {
    return this.keeper.keptAt(cid);
  }

  async sweep({ dryRun = false }: { readonly dryRun?: boolean } = {}): Promise<Leftovers> {
    const bare: Cid[] = [];
    for await (const { cid, info } of this.#directories()) if (info === null) bare.push(cid);
    // What is about to become a blob's may wait, on a disk that is busy, longer than any other file.
    const empty = await this.keeper.sweep(bare, Math.max(this.#staleMs, STALE_MS), dryRun);
    return sum(await sweep(this.temporary, this.#staleMs, { dryRun }), empty);
  }

  /**
   * Every object. Directories without one are what an eviction or a crash left. Something else in the place of one is
   * listed as well, so that a check finds it, but is never old enough to be dropped.
   */
  async *held(): AsyncGenerator<Held, void, undefined> {
    for await (const { cid, info } of this.#directories()) {
      if (info === null) continue;
      if (info?.isFile !== true) yield { cid, bytes: 0, storedAt: Date.now() };
      else {
        const { size, mtime } = info;
        yield { cid, bytes: size, storedAt: mtime?.getTime() ?? 0, keptAt: newest(info) };
      }
    }
  }

  /** The directories of blobs, with the status of the object in each: null when there is none, `undefined` when it has none. */
  async *#directories(): AsyncGenerator<{ cid: Cid; info: Deno.FileInfo | null | undefined }> {
    try {
      for await (const entry of Deno.readDir(this.objects)) {
        const cid = nameToCid(entry.name);
        if (cid === null) continue;
        const info = await Deno.stat(this.path(cid)).catch((error) => {
          if (error instanceof Deno.errors.NotFound) return null;
          if (isError(objectError(error, ""), "integrity")) return undefined;
          throw error;
        });
        yield { cid, info };
      }
    } catch (error) {
      throw fileError(error, `cannot list the store ${this.objects}`, "unavailable");
    }
  }
}
