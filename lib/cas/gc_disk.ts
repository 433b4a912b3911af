/**
 * @module The age of objects on a disk, and their removal by it.
 *
 * The age of an object is that of the newest of its times. Whoever is told that a blob is there renews it first, by its
 * access time, which changes what the file system keeps as its time of change and nothing that readers go by. That and
 * the removal exclude each other by a lock of the store, so that nothing goes that somebody was told of.
 */

import { setImmediate } from "node:timers";
import { objectName } from "./cid.ts";
import type { Cid, Leftovers } from "./contract.ts";
import { fileError } from "./files.ts";
import { KEEP_EVERY_MS, KeptLately } from "./gc_keep.ts";

/** So many objects are renewed or removed with the lock taken once. */
const BATCH = 64;

/** Renews the age of a store's objects, and removes those that are too old. */
export class DiskKeeper {
  readonly #root: string;
  readonly #lately: KeptLately;
  readonly #everyMs: number;

  /** Of the store at `root`. An age is renewed only once in `everyMs`. */
  constructor(root: string, everyMs: number = KEEP_EVERY_MS) {
    this.#root = root;
    this.#everyMs = everyMs;
    this.#lately = new KeptLately(everyMs);
  }

  /** See `Collectable`. */
  get everyMs(): number {
    return this.#everyMs;
  }

  /** The object of `cid` has just been written. */
  wrote(cid: Cid): void {
    this.#lately.add(cid);
  }

  /** Renew the age of the blob's object, if that is due; false when there is none. */
  keep(cid: Cid): boolean {
    if (this.#lately.has(cid)) return true;
    using _lock = this.#lock(false);
    return this.#renew(cid);
  }

  /** Renew the age of each; those that have no object. */
  async keepAll(cids: readonly Cid[]): Promise<Cid[]> {
    const due = cids.filter((cid) => !this.#lately.has(cid));
    const lost: Cid[] = [];
    for (let at = 0; at < due.length; at += BATCH) {
      {
        using _lock = this.#lock(false);
        for (const cid of due.slice(at, at + BATCH)) if (!this.#renew(cid)) lost.push(cid);
      }
      // Many take a while, and others wait.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return lost;
  }

  #renew(cid: Cid): boolean {
    const path = `${this.#directory(cid)}/bytes.zst`;
    try {
      const info = Deno.statSync(path);
      if (!info.isFile) return false;
      const now = Date.now();
      const changed = info.ctime?.getTime() ?? 0;
      if (now - changed < 0 || now - changed >= this.#everyMs) {
        Deno.utimeSync(path, now / 1000, info.mtime ?? now / 1000);
        this.#lately.add(cid, now);
      } else {
        this.#lately.add(cid, changed);
      }
      return true;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      // It is another user's, who alone can collect it.
      if (isRefusal(error)) return true;
      throw fileError(error, `cannot look for blob ${cid}`, "unavailable");
    }
  }

  /** The directory of `cid`, which is there, is about to get an object: it is not removed now. False: it is gone. */
  keepDirectory(cid: Cid): boolean {
    using _lock = this.#lock(false);
    try {
      const info = Deno.statSync(this.#directory(cid));
      Deno.utimeSync(this.#directory(cid), Date.now() / 1000, info.mtime ?? 0);
      return true;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      if (isRefusal(error)) return true;
      throw fileError(error, `cannot store blob ${cid}`, "unavailable");
    }
  }

  /**
   * Remove the objects of those of `cids` that are older than `graceMs` by the file system's clock, with what else is in
   * their directories; what each freed, in bytes. One whose marker `remote` is younger stays.
   */
  async collect(cids: readonly Cid[], graceMs: number): Promise<Map<Cid, number>> {
    const before = await this.#now() - graceMs;
    const freed = new Map<Cid, number>();
    for (let at = 0; at < cids.length; at += BATCH) {
      {
        using _lock = this.#lock(true);
        for (const cid of cids.slice(at, at + BATCH)) {
          const bytes = this.#remove(cid, before);
          if (bytes !== null) freed.set(cid, bytes);
        }
      }
      // Others get their turn.
      await new Promise((resolve) => setImmediate(resolve));
    }
    return freed;
  }

  /**
   * Of `cids`, whose directories had no object, remove those directories that are empty and were not looked at for
   * `ageMs`: a put that a crash ended made them, or an eviction left them.
   */
  async sweep(cids: readonly Cid[], ageMs: number, dryRun: boolean): Promise<Leftovers> {
    // Who only counts may not be able to write.
    const before = (dryRun ? Date.now() : await this.#now()) - ageMs;
    let count = 0;
    for (let at = 0; at < cids.length; at += BATCH) {
      {
        using _lock = this.#lock(!dryRun);
        for (const cid of cids.slice(at, at + BATCH)) {
          if (
            isStale(this.#directory(cid), before) && (dryRun || removeEmpty(this.#directory(cid)))
          ) count++;
        }
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    return { count, bytes: 0 };
  }

  /** When the object of `cid`, or its marker `remote`, was last written or asked for (Unix ms); null: there is none. */
  keptAt(cid: Cid): number | null {
    const directory = this.#directory(cid);
    const found = [statAt(`${directory}/bytes.zst`), statAt(`${directory}/remote`)];
    const times = found.filter((info) => info !== null).map(newest);
    return times.length === 0 ? null : Math.max(...times);
  }

  #remove(cid: Cid, before: number): number | null {
    const directory = this.#directory(cid);
    try {
      const age = statAt(directory);
      if (age === null) return null;
      const object = statAt(`${directory}/bytes.zst`);
      const marker = statAt(`${directory}/remote`);
      if (isYounger(object, before) || isYounger(marker, before)) return null;
      if (object === null && marker === null && isYounger(age, before)) return null;
      if (object !== null) Deno.removeSync(`${directory}/bytes.zst`);
      if (marker !== null) Deno.removeSync(`${directory}/remote`);
      // Somebody may be about to put an object into a directory that was looked at lately.
      if (!isYounger(age, before)) removeEmpty(directory);
      return object?.size ?? 0;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      throw fileError(error, `cannot drop blob ${cid}`, "unavailable");
    }
  }

  #directory(cid: Cid): string {
    return `${this.#root}/blake3/${objectName(cid)}`;
  }

  /** The time by the clock of the file system, in Unix ms. */
  async #now(): Promise<number> {
    const path = `${this.#root}/tmp/clock-${crypto.randomUUID()}`;
    try {
      // Without a byte in it: a disk that is full has no room for one.
      await Deno.writeFile(path, new Uint8Array(0), { createNew: true });
      const { mtime } = await Deno.stat(path);
      return mtime?.getTime() ?? Date.now();
    } catch (error) {
      throw fileError(error, `cannot write in ${this.#root}/tmp`, "unavailable");
    } finally {
      await Deno.remove(path).catch(() => {});
    }
  }

  /** The lock of the store, for as long as the caller does not wait for anything. */
  #lock(exclusive: boolean): Disposable {
    const path = `${this.#root}/gc.lock`;
    let file: Deno.FsFile;
    try {
      file = Deno.openSync(path, { read: true, write: true, create: true, mode: 0o644 });
    } catch (error) {
      // Whoever collects has made it, and could not have done so either.
      if (!exclusive && (isRefusal(error) || isFull(error))) return { [Symbol.dispose]() {} };
      throw fileError(error, `cannot lock the store ${this.#root}`, "unavailable");
    }
    try {
      file.lockSync(exclusive);
      return file;
    } catch (error) {
      file.close();
      throw fileError(error, `cannot lock the store ${this.#root}`, "unavailable");
    }
  }
}

function statAt(path: string): Deno.FileInfo | null {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** The newest time of a file, in Unix ms. Of its time of change, the runtime tells only the second. */
export function newest(info: Deno.FileInfo): number {
  return Math.max(info.mtime?.getTime() ?? 0, (info.ctime?.getTime() ?? 0) + 999);
}

function isYounger(info: Deno.FileInfo | null, before: number): boolean {
  return info !== null && newest(info) >= before;
}

/** Whether a directory is empty, and older than `before`. */
function isStale(directory: string, before: number): boolean {
  const info = statAt(directory);
  if (info === null || !info.isDirectory || isYounger(info, before)) return false;
  for (const _ of Deno.readDirSync(directory)) return false;
  return true;
}

/** Remove a directory that is empty; another one stays. */
function removeEmpty(directory: string): boolean {
  try {
    Deno.removeSync(directory);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    if ((error as { code?: unknown }).code !== "ENOTEMPTY") throw error;
    return false;
  }
}

/** Whether the disk has no room for a new file. */
function isFull(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return code === "ENOSPC" || code === "EDQUOT";
}

/** Whether this process may not do something, as its user or by what it was started with. */
function isRefusal(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable ||
    (error as { code?: unknown }).code === "EROFS";
}
