/** @module The door of `lib/store`: the database port and its SQLite driver. */

export type { ConstraintKind, Db, Row, Tx, Value, WriteOptions } from "./port.ts";
export { ConstraintError, isTaken } from "./port.ts";
export { openSqlite, type SqliteOptions } from "./sqlite.ts";
export { ProcessLock } from "./process_lock.ts";
