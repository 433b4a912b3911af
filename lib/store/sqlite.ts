/** @module The SQLite driver of the database port, on `node:sqlite`. */

import type { Db } from "./port.ts";

/** How a database is opened. */
export interface SqliteOptions {
  /** Whether the schema is brought up to date first. Default true. */
  readonly migrations?: boolean;
}

/** A database of SQLite. */
export interface SqliteDb extends Db {
  /** Whether another connection changed the database since the last call. */
  changedElsewhere(): boolean;
}

/** Open the database at `path`, or a new one in memory. */
export function openSqlite(_path: string, _options: SqliteOptions = {}): Promise<SqliteDb> {
  return Promise.reject(new Error("not here yet"));
}
