/** @module One connection to a SQLite file: cached statements, our values, our errors. Everything is synchronous. */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Row, Value } from "./port.ts";
import { sqliteError } from "./sqlite_error.ts";
import { bindable, factsOf, type StatementFacts } from "./statement.ts";

/** Statements that stay prepared. Texts are constants of the code, so this is only a bound. */
const MAX_STATEMENTS = 1_000;

/** What Node documents of a statement, and the types of Deno lack. */
interface ReturnsArrays {
  setReturnArrays(enabled: boolean): void;
}

interface Prepared extends StatementFacts {
  readonly statement: StatementSync;
  /** Names of the columns of its rows. */
  columns: readonly string[];
}

/** One connection. */
export class Connection {
  readonly #path: string;
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, Prepared>();

  /** `timeout`: milliseconds that a statement waits for another process's lock. It blocks the event loop meanwhile. */
  constructor(path: string, readOnly: boolean, timeout: number) {
    this.#path = path;
    try {
      this.#db = new DatabaseSync(path, { readOnly, timeout });
    } catch (error) {
      throw sqliteError(error, path);
    }
  }

  /** Whether a transaction is open. A full disk, say, can end one on its own. */
  get inTransaction(): boolean {
    return this.#db.isTransaction;
  }

  /** Run statements that return nothing. */
  exec(sql: string): void {
    try {
      this.#db.exec(sql);
    } catch (error) {
      throw sqliteError(error, this.#path, sql);
    }
  }

  /** A statement of the lane's own, prepared once. */
  control(sql: string): () => void {
    let statement: StatementSync | null = null;
    return () => {
      try {
        statement ??= this.#db.prepare(sql);
        statement.run();
      } catch (error) {
        throw sqliteError(error, this.#path, sql);
      }
    };
  }

  /** The facts of `sql`. */
  facts(sql: string): StatementFacts {
    return this.#prepare(sql);
  }

  all(sql: string, params: readonly Value[]): Row[] {
    const prepared = this.#prepare(sql);
    const values = bindable(params, prepared);
    try {
      return rowsOf(prepared, prepared.statement.all(...values));
    } catch (error) {
      throw sqliteError(error, this.#path, sql);
    }
  }

  get(sql: string, params: readonly Value[]): Row | null {
    const prepared = this.#prepare(sql);
    const values = bindable(params, prepared);
    try {
      const row = prepared.statement.get(...values);
      return row === undefined ? null : rowsOf(prepared, [row])[0] ?? null;
    } catch (error) {
      throw sqliteError(error, this.#path, sql);
    }
  }

  run(sql: string, params: readonly Value[]): number {
    const prepared = this.#prepare(sql);
    const values = bindable(params, prepared);
    try {
      return Number(prepared.statement.run(...values).changes);
    } catch (error) {
      throw sqliteError(error, this.#path, sql);
    }
  }

  /** `PRAGMA data_version`: another number after another connection's commit. */
  dataVersion(): number {
    return Number(this.get("PRAGMA data_version", [])?.data_version ?? 0);
  }

  close(): void {
    this.#statements.clear();
    this.#db.close();
  }

  #prepare(sql: string): Prepared {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const facts = factsOf(sql);
    try {
      const statement = this.#db.prepare(sql) as StatementSync & ReturnsArrays;
      // An object of node:sqlite's is slow to make and to read: arrays and objects of our own take half the time.
      statement.setReturnArrays(true);
      const prepared = { ...facts, statement, columns: columnsOf(statement) };
      this.#statements.set(sql, prepared);
      if (this.#statements.size > MAX_STATEMENTS) {
        const oldest = this.#statements.keys().next().value;
        if (oldest !== undefined) this.#statements.delete(oldest);
      }
      return prepared;
    } catch (error) {
      throw sqliteError(error, this.#path, sql);
    }
  }
}

function columnsOf(statement: StatementSync): string[] {
  return statement.columns().map(({ name }) => name);
}

/** The rows that `found` are: with `setReturnArrays`, each is an array, which its type does not say. */
function rowsOf(prepared: Prepared, found: readonly unknown[]): Row[] {
  const arrays = found as readonly (readonly Value[])[];
  // Another connection's change of the schema can give `SELECT *` more columns.
  if (arrays[0] !== undefined && arrays[0].length !== prepared.columns.length) {
    prepared.columns = columnsOf(prepared.statement);
  }
  const { columns } = prepared;
  return arrays.map((values) => {
    const row: Record<string, Value> = {};
    for (let at = 0; at < columns.length; at++) row[columns[at] ?? ""] = values[at] ?? null;
    return row;
  });
}
