/**
 * @module The database port. SQLite is its first driver (`sqlite.ts`); statements stay plain (`RETURNING`,
 * `ON CONFLICT`, partial indexes) so that PostgreSQL can be the next.
 */

/** A value of a column or a parameter. */
export type Value = string | number | null | Uint8Array;

/** A row: column name to value. */
export type Row = Record<string, Value>;

/** One transaction, as its body sees it. Statements are cached by their text. */
export interface Tx {
  /** Every row of a query. */
  all<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R[]>;
  /** The first row of a query, or null. */
  get<R extends Row = Row>(sql: string, params?: readonly Value[]): Promise<R | null>;
  /** Run a statement; the number of rows it changed. */
  run(sql: string, params?: readonly Value[]): Promise<number>;
  /** Call `done` once this transaction is durable; never when it is rolled back. */
  onCommit(done: () => void): void;
}

/** A database. */
export interface Db extends AsyncDisposable {
  /**
   * Run `body` in a write transaction and resolve with its result once it is durable. Bodies that arrive in one tick
   * run one after another, in order of arrival, in one `BEGIN IMMEDIATE … COMMIT`; each in a savepoint, so a body
   * that throws undoes its own changes alone and rejects with what it threw. A body awaits nothing but its `Tx`.
   */
  write<T>(body: (tx: Tx) => Promise<T>): Promise<T>;
  /** Run `body` on a consistent snapshot. It must not change anything. */
  read<T>(body: (tx: Tx) => Promise<T>): Promise<T>;
}
