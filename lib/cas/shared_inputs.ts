/**
 * @module Read-only copies of blobs that the checkouts of a machine share: one file for each blob, mode and time.
 *
 * A copy is trusted while its inode, size, mode and time are as they were left. Else it is hashed, and made again from
 * the store when its content is another.
 */

import { join } from "node:path";
import { SubletError } from "../home/mod.ts";
import { sameBlob } from "./cid.ts";
import type { Cas } from "./contract.ts";
import { fileError } from "./files.ts";
import { hashFile } from "./hash_file.ts";
import type { FileEntry } from "./manifest.ts";
import { readStamp, readStampSync, sameStamp, type Stamp } from "./stamp.ts";

/** Seconds since 1970 of a file whose manifest has no time: in the past, so that each write to it shows. */
const NO_TIME = 1_000_000_000;
/** A temporary file that is older was left by a process that died. */
const STALE_MS = 60 * 60 * 1000;

/** A copy that is right. */
export interface Shared {
  readonly path: string;
  readonly stamp: Stamp;
  /** Whether something else was in its place, so that it was made again. */
  readonly rebuilt: boolean;
}

/** The mode of a copy: nobody may write, and its owner may always read. */
export function sharedMode(mode: number): number {
  return (mode & 0o555) | 0o400;
}

/** The time of a copy, in seconds since 1970. */
export function sharedTime(entry: FileEntry): number {
  return entry.mtimeNs === undefined ? NO_TIME : Number(entry.mtimeNs) / 1e9;
}

function nameOf({ blob, mode, mtimeNs }: FileEntry): string {
  const time = mtimeNs === undefined ? "" : `.${mtimeNs}`;
  return `${blob}.${sharedMode(mode).toString(8)}${time}`;
}

/** The shared copies in one directory. One instance serves all jobs of a process. */
export class SharedInputs {
  readonly #cas: Cas;
  readonly #known = new Map<string, Stamp>();
  readonly #making = new Map<string, Promise<Shared>>();
  #ready: Promise<void> | null = null;

  constructor(cas: Cas, readonly directory: string) {
    this.#cas = cas;
  }

  /** The copy of `entry`'s blob when it is there as it was left, else null. Synchronous: trees have many files. */
  trusted(entry: FileEntry): Shared | null {
    const name = nameOf(entry);
    const known = this.#known.get(name);
    if (known === undefined || this.#making.has(name)) return null;
    const path = join(this.directory, name);
    const found = readStampSync(path);
    return found !== null && sameStamp(found, known)
      ? { path, stamp: known, rebuilt: false }
      : null;
  }

  /** The copy of `entry`'s blob. Throws `not_found` when the store lacks it, `integrity` when its size is another. */
  async copy(entry: FileEntry): Promise<Shared> {
    const name = nameOf(entry);
    const running = this.#making.get(name);
    if (running !== undefined) return await running;
    const making = this.#provide(entry, name).finally(() => this.#making.delete(name));
    this.#making.set(name, making);
    return await making;
  }

  async #provide(entry: FileEntry, name: string): Promise<Shared> {
    await this.#prepare();
    const path = join(this.directory, name);
    const found = await readStamp(path);
    const known = this.#known.get(name);
    if (found !== null && known !== undefined && sameStamp(found, known)) {
      return { path, stamp: known, rebuilt: false };
    }
    if (found !== null && found.size === entry.size && sameBlob(await hashFile(path), entry.blob)) {
      return { path, stamp: await this.#settle(entry, name, path), rebuilt: false };
    }
    const there = await exists(path);
    if (there) await Deno.remove(path, { recursive: true });
    const temporary = join(this.directory, `.${crypto.randomUUID()}.part`);
    try {
      await this.#fetch(entry, temporary);
      await Deno.rename(temporary, path);
    } catch (error) {
      await Deno.remove(temporary).catch(() => {});
      throw fileError(error, `cannot make the shared copy of ${entry.blob}`, "unavailable");
    }
    return { path, stamp: await this.#settle(entry, name, path), rebuilt: there };
  }

  async #fetch(entry: FileEntry, temporary: string): Promise<void> {
    const length = await this.#cas.getFile(entry.blob, temporary);
    const named = `${JSON.stringify(entry.path)} (${entry.blob})`;
    if (length === null) {
      throw new SubletError("not_found", `the store lacks the file ${named}. Store its tree again`);
    }
    if (length !== entry.size) {
      throw new SubletError(
        "integrity",
        `the file ${named} has ${length} bytes, not the ${entry.size} of its manifest. Store its tree again`,
      );
    }
  }

  async #settle(entry: FileEntry, name: string, path: string): Promise<Stamp> {
    await Deno.utime(path, sharedTime(entry), sharedTime(entry));
    await Deno.chmod(path, sharedMode(entry.mode));
    const stamp = await readStamp(path);
    if (stamp === null) throw new SubletError("unavailable", `${path} is gone. Try again`);
    this.#known.set(name, stamp);
    return stamp;
  }

  #prepare(): Promise<void> {
    this.#ready ??= (async () => {
      await Deno.mkdir(this.directory, { recursive: true, mode: 0o700 });
      for await (const { name } of Deno.readDir(this.directory)) {
        if (!/^\..*\.(part|tmp)$/.test(name)) continue;
        const path = join(this.directory, name);
        const age = Date.now() - ((await readStamp(path))?.mtime ?? Date.now());
        if (age > STALE_MS) await Deno.remove(path).catch(ignoreAbsence);
      }
    })().catch((error) => {
      this.#ready = null;
      throw fileError(error, `cannot use ${this.directory} for shared inputs`, "unavailable");
    });
    return this.#ready;
  }

  /**
   * Free at least `bytes` by removing copies that no checkout links to, those not used for the longest first; the
   * bytes that were freed.
   */
  async evict(bytes: number): Promise<number> {
    await this.#prepare();
    const unused: { name: string; size: number; used: number }[] = [];
    for await (const { name, isFile } of Deno.readDir(this.directory)) {
      if (!isFile || name.startsWith(".") || this.#making.has(name)) continue;
      const info = await Deno.lstat(join(this.directory, name)).catch(ignoreAbsence);
      if (info === undefined || (info.nlink ?? 1) > 1) continue;
      unused.push({ name, size: info.size, used: (info.ctime ?? info.mtime)?.getTime() ?? 0 });
    }
    let freed = 0;
    for (const { name, size } of unused.sort((a, b) => a.used - b.used)) {
      if (freed >= bytes) break;
      if (this.#making.has(name)) continue;
      this.#known.delete(name);
      await Deno.remove(join(this.directory, name)).catch(ignoreAbsence);
      freed += size;
    }
    return freed;
  }
}

function ignoreAbsence(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
  return undefined;
}

/** Whether anything is at `path`, a dangling link too. */
async function exists(path: string): Promise<boolean> {
  return (await Deno.lstat(path).catch(ignoreAbsence)) !== undefined;
}
