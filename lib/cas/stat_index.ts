/**
 * @module The stat index: which blobs files had when they were stored, for processes to come. It is a cache in one
 * SQLite file: without it, files are read again.
 */

import { isError } from "../home/mod.ts";
import { type Db, openSqlite } from "../store/mod.ts";
import { isCid } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { RACY_MS, type Seen, type SeenFile } from "./seen.ts";
import { sameStamp, type Stamp } from "./stamp.ts";

const TABLE = `CREATE TABLE IF NOT EXISTS files (
  path TEXT PRIMARY KEY, inode INTEGER NOT NULL, size INTEGER NOT NULL, mode INTEGER NOT NULL,
  mtime INTEGER NOT NULL, changed INTEGER NOT NULL, blob TEXT NOT NULL, at INTEGER NOT NULL
) STRICT, WITHOUT ROWID`;

/** What was seen so many milliseconds ago is forgotten, and read once more. */
const KEPT_MS = 60 * 86_400_000;

/** So many files are written down at once. */
const BATCH = 1000;

interface Columns extends Stamp {
  readonly [column: string]: string | number;
  readonly path: string;
  readonly blob: string;
}

const FIND = "SELECT path, inode, size, mode, mtime, changed, blob FROM files WHERE path = ?";
const ADD = `INSERT INTO files (path, inode, size, mode, mtime, changed, blob, at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET inode = excluded.inode, size = excluded.size,
  mode = excluded.mode, mtime = excluded.mtime, changed = excluded.changed, blob = excluded.blob, at = excluded.at`;

/** An open index. What was added is written down when it is disposed, if not before. */
export class StatIndex implements Seen, AsyncDisposable {
  readonly #db: Db;
  #added: { file: SeenFile; blob: Cid }[] = [];

  private constructor(db: Db) {
    this.#db = db;
  }

  /** The index in the file at `path`, made when it is missing, and anew when it is damaged. Throws `unavailable`. */
  static async open(path: string): Promise<StatIndex> {
    try {
      return await StatIndex.#open(path);
    } catch (error) {
      if (!isError(error, "unavailable")) throw error;
      // Nothing is lost but time.
      for (const end of ["", "-wal", "-shm"]) await Deno.remove(path + end).catch(() => {});
      return await StatIndex.#open(path);
    }
  }

  static async #open(path: string): Promise<StatIndex> {
    const db = await openSqlite(path, { migrations: false });
    try {
      await db.write(async (tx) => {
        await tx.run(TABLE);
        await tx.run("DELETE FROM files WHERE at < ?", [Date.now() - KEPT_MS]);
      });
      return new StatIndex(db);
    } catch (error) {
      await Promise.resolve(db[Symbol.asyncDispose]()).catch(() => {});
      throw error;
    }
  }

  find(files: readonly SeenFile[]): Promise<(Cid | null)[]> {
    return this.#db.read(async (tx) => {
      const found: (Cid | null)[] = [];
      for (const { path, stamp } of files) {
        const row = await tx.get<Columns>(FIND, [path]);
        const same = row !== null && sameStamp(row, stamp) && row.changed === stamp.changed;
        found.push(same && isCid(row.blob) ? row.blob : null);
      }
      return found;
    });
  }

  /** Its time of change is told by the second, so it counts as changed at the second's end. */
  async add(file: SeenFile, blob: Cid): Promise<void> {
    const { mtime, changed } = file.stamp;
    if (file.at - Math.max(mtime, changed + 999) <= RACY_MS) return;
    this.#added.push({ file, blob });
    if (this.#added.length >= BATCH) await this.flush();
  }

  async flush(): Promise<void> {
    const added = this.#added;
    if (added.length === 0) return;
    this.#added = [];
    await this.#db.write(async (tx) => {
      for (const { file: { path, stamp, at }, blob } of added) {
        const { inode, size, mode, mtime, changed } = stamp;
        await tx.run(ADD, [path, inode, size, mode, Math.trunc(mtime), changed, blob, at]);
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.flush();
    } finally {
      await this.#db[Symbol.asyncDispose]();
    }
  }
}
