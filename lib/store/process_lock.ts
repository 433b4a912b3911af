/**
 * @module A lock that one process holds on a file, and that is free the moment its holder is gone: an SQLite file held
 * exclusively, since not every Deno that we run on can try a lock of its own.
 */

import { DatabaseSync } from "node:sqlite";
import { isBusy, sqliteError } from "./sqlite_error.ts";

/** The lock of a file. It is held until it is disposed, or the process ends however it may. */
export class ProcessLock implements Disposable {
  readonly #db: DatabaseSync;

  private constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Take the lock of the file at `path`, made if it is missing, or null when another process (or lock) has it. */
  static tryTake(path: string): ProcessLock | null {
    let db: DatabaseSync | null = null;
    try {
      db = new DatabaseSync(path, { timeout: 0 });
      db.exec("PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE");
      return new ProcessLock(db);
    } catch (error) {
      db?.close();
      if (isBusy(error)) return null;
      throw sqliteError(error, path);
    }
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}
