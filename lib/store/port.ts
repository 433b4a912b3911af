/**
 * @module The database port. SQLite is its first driver (`sqlite.ts`); statements stay plain (`RETURNING`,
 * `ON CONFLICT`, partial indexes) so that PostgreSQL can be the next.
 */

import { SubletError } from "../home/mod.ts";

/**
 * A value of a column or a parameter. A whole number is bound as an integer, any other as a real. Text holds no NUL
 * (`invalid_request`). An integer that a column holds beyond 2^53 cannot be read (`internal`).
 */
export type Value = string | number | null | Uint8Array;

/** A row: column name to value. */
export type Row = Record<string, Value>;

/**
 * One transaction, as its body sees it. Parameters are `?`, in order, and as many as the statement has. Statements are
 * cached by their text. A statement that breaks a constraint rejects with {@linkcode ConstraintError}, and may be
 * caught; one that is wrong rejects with `internal`; a database that cannot be used rejects with `unavailable`.
 */
export interface Tx {
  /** Every row of a query. */
  all<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R[]>;
  /** The first row of a query, or null. */
  get<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R | null>;
  /** Run an insert, update or delete; the number of rows it changed. */
  run(sql: string, params?: readonly Value[]): Promise<number>;
  /** Call `done` once this transaction is durable; never when it is rolled back. It must not throw. */
  onCommit(done: () => void): void;
}

/** How a body is run. */
export interface WriteOptions {
  /**
   * Whether it may run again from its start, after its transaction was undone because of another body: it does nothing
   * but by its `Tx`, or undoes it when it starts anew. Such bodies spare the database a savepoint each. Default: false.
   */
  readonly repeatable?: boolean;
}

/** A database. */
export interface Db extends AsyncDisposable {
  /**
   * Run `body` in a write transaction and resolve with its result once it is durable. Bodies that arrive in one tick
   * run one after another, in order of arrival, in one `BEGIN IMMEDIATE … COMMIT`. One that throws undoes its own
   * changes alone and rejects with what it threw. A body awaits nothing but its `Tx`: one that waits for anything else
   * is undone and rejects with `internal`.
   */
  write<T>(body: (tx: Tx) => Promise<T>, options?: WriteOptions): Promise<T>;
  /**
   * Run `body` on a consistent snapshot that holds every write answered before the call. It must not change anything,
   * and, like a write's body, awaits nothing but its `Tx`.
   */
  read<T>(body: (tx: Tx) => Promise<T>): Promise<T>;
  /**
   * A number that is another one whenever somebody else than this object (another process) committed a change since
   * the last call, for caches. It says nothing of writes through this object.
   */
  dataVersion(): number;
}

/** Which kind of constraint a statement broke. */
export type ConstraintKind = "unique" | "foreign_key" | "not_null" | "check" | "other";

/** A statement broke a constraint. Catch it inside the body to answer for a name that is taken, say. */
export class ConstraintError extends SubletError {
  readonly constraint: ConstraintKind;

  constructor(constraint: ConstraintKind, message: string, options?: ErrorOptions) {
    super("internal", message, options);
    this.name = "ConstraintError";
    this.constraint = constraint;
  }
}

/** Whether `error` says that a unique or primary key is taken. */
export function isTaken(error: unknown): error is ConstraintError {
  return error instanceof ConstraintError && error.constraint === "unique";
}
