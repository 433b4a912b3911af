/**
 * @module A lock between processes on one machine that dies with its holder.
 *
 * It is an SQLite file held exclusively, so it is the kernel's own lock on every platform, and works on Deno versions
 * that lack `FsFile.tryLock`.
 */

import { DatabaseSync } from "node:sqlite";
import { messageOf, SubletError } from "../home/mod.ts";

/** A lock that this process holds until it disposes of it or ends, however it ends. */
export class ProcessLock implements Disposable {
  readonly #db: DatabaseSync;

  private constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** Take the lock at `path` (made when absent), or return null when another process holds it. Never waits. */
  static tryTake(path: string): ProcessLock | null {
    let db: DatabaseSync | null = null;
    try {
      db = new DatabaseSync(path, { timeout: 0 });
      db.exec("PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
      return new ProcessLock(db);
    } catch (cause) {
      db?.close();
      if (/locked|busy/i.test(messageOf(cause))) return null;
      throw new SubletError(
        "unavailable",
        `the lock ${path} cannot be taken: ${messageOf(cause)}`,
        { cause },
      );
    }
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }
}
