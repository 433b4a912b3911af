/**
 * @module The spool on disk: `<home>/spool/<worker>/<lease>.json`, each written beside its place, synced, and renamed, so
 * that a crash or a power cut leaves a whole entry or none.
 */

import {
  isHostFault,
  type Log,
  messageOf,
  mkdirBeneath,
  openBeneath,
  removeBeneath,
  SubletError,
  writeBeneath,
} from "../../home/mod.ts";
import { decodeSpooled, encodeSpooled, type Spool, type SpoolEntry, workerPart } from "../spool.ts";

const WHAT = "the spool";
const MAX_ENTRY_BYTES = 64 * 1024 * 1024;
/** What an entry that could not be read, or that the server cannot take, is called after its name. */
const ASIDE = ".bad";

/** {@linkcode Spool} beneath `home`. Several workers may share a home: each has a directory of its own. */
export class FileSpool implements Spool {
  readonly #home: string;
  readonly #log: Log;

  constructor(home: string, log: Log) {
    this.#home = home;
    this.#log = log;
  }

  async load(worker: string): Promise<SpoolEntry[]> {
    const found: SpoolEntry[] = [];
    for (const name of this.#names(worker)) {
      const lease = Number(/^(\d{1,15})\.json$/.exec(name)?.[1]);
      if (!Number.isInteger(lease)) {
        // What a crash left of a write that never was acknowledged.
        if (name.endsWith(".part")) await this.#remove(worker, name);
        continue;
      }
      try {
        found.push(decodeSpooled(lease, await this.#read(worker, name)));
      } catch (error) {
        // The entry may be whole: it is read again.
        if (isHostFault(error)) throw error;
        this.#log.event("spool.quarantined", { worker, entry: name, error: messageOf(error) });
        await this.#aside(worker, name);
      }
    }
    return found.sort((a, b) => a.lease - b.lease);
  }

  async keep(worker: string, entry: SpoolEntry): Promise<void> {
    const directory = this.#directory(worker);
    mkdirBeneath(this.#home, directory, { what: WHAT });
    const path = `${directory}/${entry.lease}.json`;
    try {
      await writeBeneath(this.#home, path, encodeSpooled(entry), { what: WHAT, sync: true });
      await this.#syncParents();
    } catch (cause) {
      throw new SubletError(
        "unavailable",
        `lease ${entry.lease} is not kept: ${messageOf(cause)}`,
        {
          cause,
        },
      );
    }
  }

  async drop(worker: string, lease: number): Promise<void> {
    await this.#remove(worker, `${lease}.json`);
  }

  async setAside(worker: string, lease: number): Promise<void> {
    await this.#aside(worker, `${lease}.json`);
  }

  #directory(worker: string): string {
    return `spool/${workerPart(worker)}`;
  }

  #names(worker: string): string[] {
    try {
      return [...Deno.readDirSync(`${this.#home}/${this.#directory(worker)}`)]
        .filter((entry) => entry.isFile).map((entry) => entry.name);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  async #read(worker: string, name: string): Promise<Uint8Array> {
    await using file = await openBeneath(this.#home, `${this.#directory(worker)}/${name}`, {
      what: WHAT,
    });
    return await file.bytes(MAX_ENTRY_BYTES);
  }

  async #remove(worker: string, name: string): Promise<void> {
    await removeBeneath(this.#home, `${this.#directory(worker)}/${name}`, { what: WHAT });
  }

  async #aside(worker: string, name: string): Promise<void> {
    const path = `${this.#home}/${this.#directory(worker)}/${name}`;
    try {
      await Deno.rename(path, path + ASIDE);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      this.#log.event("spool.failed", { worker, entry: name, error: messageOf(error) });
    }
  }

  /** The first entry of a worker is there after a power cut only if the directories above it are. */
  #synced = false;
  async #syncParents(): Promise<void> {
    if (this.#synced || Deno.build.os === "windows") return;
    for (const path of [`${this.#home}/spool`, this.#home]) {
      using directory = await Deno.open(path);
      await directory.sync();
    }
    this.#synced = true;
  }
}
