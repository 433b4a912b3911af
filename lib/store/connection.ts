/** @module One connection to a SQLite file: cached statements, our values, our errors. Everything is synchronous. */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Row, Value } from "./port.ts";
import { sqliteError } from "./sqlite_error.ts";
import { bindable, factsOf, type StatementFacts } from "./statement.ts";

/** Statements that stay prepared. Texts are constants of the code, so this is only a bound. */
const MAX_STATEMENTS = 1_000;

interface Prepared extends StatementFacts {
  readonly statement: StatementSync;
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

  /** Whether `sql` surely changes nothing. */
  reads(sql: string): boolean {
    return this.#prepare(sql).reads;
  }

  all(sql: string, params: readonly Value[]): Row[] {
    const prepared = this.#prepare(sql);
    const values = bindable(params, prepared);
    try {
      return prepared.statement.all(...values).map((row) => ({ ...row }) as Row);
    } catch (error) {
      throw sqliteError(error, this.#path, sql);
    }
  }

  get(sql: string, params: readonly Value[]): Row | null {
    const prepared = this.#prepare(sql);
    const values = bindable(params, prepared);
    try {
      const row = prepared.statement.get(...values);
      return row === undefined ? null : { ...row } as Row;
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
      const prepared = { ...facts, statement: this.#db.prepare(sql) };
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
