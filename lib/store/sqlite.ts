/** @module The SQLite driver of the database port, on `node:sqlite`. */

import { SubletError } from "../home/mod.ts";
import { Connection } from "./connection.ts";
import { migrate, type Migration, migrations } from "./migrations.ts";
import type { Db, Tx, WriteOptions } from "./port.ts";
import { ReadLane } from "./read_lane.ts";
import { isBusy } from "./sqlite_error.ts";
import { SyncedFile } from "./synced_file.ts";
import { WriteLane } from "./write_lane.ts";

/** How a database is opened. */
export interface SqliteOptions {
  /** Whether the schema is brought up to date first. Default true. */
  readonly migrations?: boolean;
  /**
   * Milliseconds that a statement waits for another process's lock before it fails with `unavailable`. Default 5,000.
   * The event loop stands still meanwhile.
   */
  readonly busyTimeoutMs?: number;
}

/** How often opening is tried while another process is making the same database. */
const OPEN_TRIES = 10;

/**
 * Open the database at `path`, made if it is missing (readable by its owner only), or a new one with `:memory:`.
 * Throws `unavailable`, with what to do, when it cannot be used.
 */
export async function openSqlite(path: string, options: SqliteOptions = {}): Promise<Db> {
  const list = options.migrations === false ? [] : await migrations();
  for (let left = OPEN_TRIES - 1;; left--) {
    try {
      return await openOnce(path, list, options.busyTimeoutMs ?? 5_000);
    } catch (error) {
      const cause = error instanceof SubletError ? error.cause : error;
      if (left === 0 || !isBusy(cause)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

async function openOnce(
  path: string,
  list: readonly Migration[],
  timeout: number,
): Promise<Db> {
  const inMemory = path === ":memory:";
  if (!inMemory) await makePrivate(path);
  const writer = new Connection(path, false, timeout);
  let reader: Connection | null = null;
  try {
    // NORMAL: the lane syncs each commit itself, before it answers. The WAL's file is cut back after a burst. A
    // checkpoint stands in the way of all else for its two syncs, so it is made for 8,000 pages (32 MB), not for 1,000.
    writer.exec(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; " +
        "PRAGMA journal_size_limit = 67108864; PRAGMA temp_store = MEMORY; " +
        "PRAGMA wal_autocheckpoint = 8000",
    );
    if (list.length > 0) migrate(writer, path, list);
    if (!inMemory) reader = new Connection(path, true, timeout);
    return new SqliteDb(path, writer, reader);
  } catch (error) {
    reader?.close();
    writer.close();
    throw error;
  }
}

/**
 * Make the file with mode 0600, or take group and others off one that is there. An existing file is not opened: closing
 * it would drop the locks that this process may have on it already.
 */
async function makePrivate(path: string): Promise<void> {
  try {
    (await Deno.open(path, { createNew: true, write: true, mode: 0o600 })).close();
  } catch {
    // It is there, or SQLite itself says why it cannot be made.
    const mode = (await Deno.stat(path).catch(() => null))?.mode ?? 0;
    if ((mode & 0o077) !== 0) await Deno.chmod(path, 0o600).catch(() => {});
  }
}

class SqliteDb implements Db {
  readonly #path: string;
  readonly #writer: Connection;
  readonly #reader: Connection | null;
  readonly #writes: WriteLane;
  readonly #reads: ReadLane | null;
  readonly #log: SyncedFile | null;
  #closed: Promise<void> | null = null;

  constructor(path: string, writer: Connection, reader: Connection | null) {
    this.#path = path;
    this.#writer = writer;
    this.#reader = reader;
    // A database in memory has no second connection, and nothing to sync.
    const log = reader === null ? null : new SyncedFile(`${path}-wal`);
    this.#log = log;
    this.#writes = new WriteLane(writer, log === null ? null : () => log.sync());
    this.#reads = reader === null ? null : new ReadLane(reader);
  }

  write<T>(body: (tx: Tx) => Promise<T>, options: WriteOptions = {}): Promise<T> {
    return this.#closed === null ? this.#writes.add(body, options) : this.#refuse();
  }

  read<T>(body: (tx: Tx) => Promise<T>): Promise<T> {
    if (this.#closed !== null) return this.#refuse();
    return this.#reads === null
      ? this.#writes.add(body, { writes: false })
      : this.#readDurable(this.#reads, body);
  }

  /** What a snapshot showed is told once it is durable. */
  async #readDurable<T>(reads: ReadLane, body: (tx: Tx) => Promise<T>): Promise<T> {
    const value = await reads.add(body);
    const unsettled = this.#writes.settled();
    if (unsettled !== null) await unsettled;
    return value;
  }

  dataVersion(): number {
    if (this.#closed !== null) throw this.#closedError();
    return this.#writer.dataVersion();
  }

  /** Ends what is queued, then closes. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#closed ??= this.#close();
  }

  async #close(): Promise<void> {
    await this.#reads?.drained();
    // A sync that failed was told to those who waited for it.
    await this.#writes.drained().catch(() => {});
    this.#log?.close();
    // The last connection to close checkpoints the WAL and removes it: that must be the one that may write.
    this.#reader?.close();
    this.#writer.close();
  }

  #refuse(): Promise<never> {
    return Promise.reject(this.#closedError());
  }

  #closedError(): SubletError {
    return new SubletError("unavailable", `the database ${this.#path} is closed`);
  }
}
