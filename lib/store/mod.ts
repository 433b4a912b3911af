/** @module The door of `lib/store`: the database port and its SQLite driver. */

export type * from "./port.ts";
export { openSqlite, type SqliteDb, type SqliteOptions } from "./sqlite.ts";
