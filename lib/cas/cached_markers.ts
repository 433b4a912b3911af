/**
 * @module What the directory of a cache says of its remote, as piloop 0.3.1 has it: `remote.url`, where the remote is,
 * and beside each blob that the remote holds an empty file `blake3/<name>/remote`, which stays when the bytes go.
 */

import { SubletError } from "../home/mod.ts";
import { nameToCid, objectName } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { fileError } from "./files.ts";
import { syncDirectory } from "./sync_dir.ts";
import { TempFile } from "./temp_file.ts";

/** The markers of one cache. */
export class Markers {
  #bound: boolean;

  private constructor(readonly root: string, readonly where: string, bound: boolean) {
    this.#bound = bound;
  }

  /** Those of the cache at `root` over the remote at `where`. Throws `config` when it is a cache of another one. */
  static async open(root: string, where: string): Promise<Markers> {
    const found = await readUrl(root);
    if (found !== "" && found !== where) {
      throw new SubletError(
        "config",
        `[plugins.cas] local = ${
          JSON.stringify(root)
        }: this is a cache of ${found}, and the remote is now ${where}. ` +
          `What it dropped is only on the former. Point remote back at it, or copy its blobs to the new one and then ` +
          `write that into ${root}/remote.url`,
      );
    }
    return new Markers(root, where, found !== "");
  }

  #path(cid: Cid): string {
    return `${this.root}/blake3/${objectName(cid)}/remote`;
  }

  /** When the blob was marked or last used (Unix ms), or null when the remote is not known to hold it. */
  async find(cid: Cid): Promise<number | null> {
    const info = await this.#stat(cid);
    return info === null ? null : info.mtime?.getTime() ?? 0;
  }

  /** When the remote last said that it holds the blob, and so keeps it for a while (Unix ms): the marker's access time. */
  async keptAt(cid: Cid): Promise<number | null> {
    const info = await this.#stat(cid);
    return info === null ? null : info.atime?.getTime() ?? 0;
  }

  async #stat(cid: Cid): Promise<Deno.FileInfo | null> {
    try {
      return await Deno.stat(this.#path(cid));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      throw fileError(error, `cannot look for blob ${cid}`, "unavailable");
    }
  }

  /** The remote holds the blob. `kept`: it has just said so, other than by a read, and so keeps it for a while. */
  async add(cid: Cid, kept: boolean): Promise<void> {
    const before = await this.find(cid);
    if (before !== null && !kept) return;
    const path = this.#path(cid);
    const now = Date.now() / 1000;
    try {
      if (!this.#bound) await this.#bind();
      if (before === null) {
        await Deno.mkdir(path.slice(0, -"/remote".length), { recursive: true, mode: 0o755 });
        await Deno.writeFile(path, new Uint8Array(0), { mode: 0o644 });
      }
      if (before !== null || !kept) {
        await Deno.utime(path, kept ? now : 0, before === null ? now : before / 1000);
      }
    } catch (error) {
      throw fileError(error, `cannot mark blob ${cid}`, "unavailable");
    }
  }

  /** The remote does not hold the blob after all. */
  async drop(cid: Cid): Promise<void> {
    await ignoreAbsence(Deno.remove(this.#path(cid)), `cannot unmark blob ${cid}`);
  }

  /** The blob is used: it is evicted after those that were used before. */
  async touch(cid: Cid, now: number): Promise<void> {
    const what = `cannot mark blob ${cid} as used`;
    const kept = await this.keptAt(cid);
    if (kept !== null) {
      await ignoreAbsence(Deno.utime(this.#path(cid), kept / 1000, now / 1000), what);
    }
  }

  /** Every marked blob. */
  async *list(): AsyncGenerator<Cid, void, undefined> {
    try {
      for await (const entry of Deno.readDir(`${this.root}/blake3`)) {
        const cid = nameToCid(entry.name);
        if (cid !== null && await this.find(cid) !== null) yield cid;
      }
    } catch (error) {
      throw fileError(error, `cannot list the cache ${this.root}`, "unavailable");
    }
  }

  /** Say whose cache it is, durably: before the first marker, since from then on it may lack blobs. */
  async #bind(): Promise<void> {
    await using file = TempFile.create(`${this.root}/tmp`);
    file.appendSync(new TextEncoder().encode(this.where));
    await file.publish(`${this.root}/remote.url`);
    await syncDirectory(this.root);
    this.#bound = true;
  }
}

/** Where the remote of the cache at `root` is; empty when it is not bound to one yet. */
async function readUrl(root: string): Promise<string> {
  try {
    return (await Deno.readTextFile(`${root}/remote.url`)).trim();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw fileError(error, `cannot open the cache ${root}`, "unavailable");
  }
}

async function ignoreAbsence(work: Promise<void>, what: string): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw fileError(error, what, "unavailable");
  }
}
