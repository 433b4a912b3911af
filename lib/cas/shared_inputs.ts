/**
 * @module Read-only copies of blobs that the checkouts of a machine share: one file for each blob, mode and time.
 *
 * A copy is trusted while its inode, size, mode and time are as they were left. Else it is hashed, and made again from
 * the store when its content is another.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { SubletError } from "../home/mod.ts";
import { sameBlob } from "./cid.ts";
import type { Cas, Cid } from "./contract.ts";
import { fileError } from "./files.ts";
import { hashFile } from "./hash_file.ts";
import type { FileEntry } from "./manifest.ts";
import { checkSize, fetchShared, nameOf, settle, type Wanted } from "./shared_file.ts";
import { removeStale, removeUnused } from "./shared_room.ts";
import { readStampSync, sameStamp, type Stamp } from "./stamp.ts";
import { StampTable } from "./stamp_table.ts";

/** A copy that is right. */
export interface Shared {
  readonly path: string;
  readonly stamp: Stamp;
  /** Whether something else was in its place, so that it was made again. */
  readonly rebuilt: boolean;
}

/** The shared copies in one directory. One instance serves all jobs of a process. */
export class SharedInputs {
  readonly #cas: Cas;
  readonly #known = new StampTable();
  /** Copies that stay as long as those who read from them. */
  readonly #held = new Map<string, WeakRef<object>>();
  readonly #making = new Map<string, Promise<Shared>>();
  #ready: Promise<void> | null = null;

  constructor(cas: Cas, readonly directory: string) {
    this.#cas = cas;
  }

  /** The copy of `entry`'s blob when it is there as it was left, else null. Synchronous: trees have many files. */
  trusted(entry: FileEntry): Shared | null {
    const name = nameOf(entry);
    if (this.#making.has(name)) return null;
    const path = join(this.directory, name);
    if (this.#known.get(name) === null) return null;
    const stamp = this.#asLeft(name, readStampSync(path), entry);
    return stamp === null ? null : { path, stamp, rebuilt: false };
  }

  /** `found` when that is the copy of `entry` as it was left, else null. */
  #asLeft(name: string, found: Stamp | null, { size }: Wanted): Stamp | null {
    const known = this.#known.get(name);
    if (found === null || known === null || (size !== null && found.size !== size)) return null;
    return sameStamp(found, { ...found, ...known }) ? found : null;
  }

  /** The path of a file with the bytes of the manifest at `cid`. It is not evicted before `holder` is garbage. */
  async manifest(cid: Cid, holder: object): Promise<string> {
    const manifest: Wanted = { path: "a manifest", mode: 0o400, size: null, blob: cid };
    this.#held.set(nameOf(manifest), new WeakRef(holder));
    return (await this.#copy(manifest)).path;
  }

  /** The copy of `entry`'s blob. Throws `not_found` when the store lacks it, `integrity` when its size is another. */
  copy(entry: FileEntry): Promise<Shared> {
    return this.#copy(entry);
  }

  async #copy(entry: Wanted): Promise<Shared> {
    const name = nameOf(entry);
    const running = this.#making.get(name);
    if (running !== undefined) return await running;
    const making = this.#provide(entry, name).finally(() => this.#making.delete(name));
    this.#making.set(name, making);
    return await making;
  }

  async #provide(entry: Wanted, name: string): Promise<Shared> {
    await this.#prepare();
    const path = join(this.directory, name);
    // To look for what is not there takes far longer in another way.
    const there = existsSync(path);
    const found = there ? readStampSync(path) : null;
    const left = this.#asLeft(name, found, entry);
    if (left !== null) return { path, stamp: left, rebuilt: false };
    if (found !== null && sameBlob(await hashFile(path), entry.blob)) {
      checkSize(entry, found.size);
      settle(entry, path);
      return { path, stamp: this.#remember(name, path), rebuilt: false };
    }
    const temporary = join(this.directory, `.${crypto.randomUUID()}.part`);
    try {
      await fetchShared(this.#cas, entry, temporary);
      settle(entry, temporary);
      // Only a directory in its place could not be replaced, and then that is said.
      if (there) await Deno.remove(path, { recursive: true }).catch(() => {});
      Deno.renameSync(temporary, path);
      return { path, stamp: this.#remember(name, path), rebuilt: there };
    } catch (error) {
      await Deno.remove(temporary).catch(() => {});
      throw fileError(error, `cannot make the shared copy of ${entry.blob}`, "unavailable");
    }
  }

  #remember(name: string, path: string): Stamp {
    const stamp = readStampSync(path);
    if (stamp === null) throw new SubletError("unavailable", `${path} is gone. Try again`);
    this.#known.set(name, stamp);
    return stamp;
  }

  #prepare(): Promise<void> {
    this.#ready ??= (async () => {
      await Deno.mkdir(this.directory, { recursive: true, mode: 0o700 });
      await removeStale(this.directory);
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
    return await removeUnused(this.directory, bytes, {
      isBusy: (name) => this.#making.has(name) || this.#held.get(name)?.deref() !== undefined,
      removing: (name) => this.#known.delete(name),
    });
  }
}
