/** @module Running a transaction's body: its `Tx`, and the rule that it awaits nothing else. */

import { setImmediate } from "node:timers";
import { SubletError } from "../home/mod.ts";
import type { Connection } from "./connection.ts";
import type { Row, Tx, Value } from "./port.ts";
import type { StatementFacts } from "./statement.ts";

/** The `Tx` of one body, until {@linkcode BodyTx.close}. */
export class BodyTx implements Tx {
  readonly #connection: Connection;
  readonly #beforeChange: (() => void) | null;
  #closed = false;
  #changed = false;
  #dirty = false;
  /** What to call once the body's changes are durable. */
  readonly committed: (() => void)[] = [];

  /** `beforeChange` runs before the first statement that may change something; null: nothing may be changed. */
  constructor(connection: Connection, beforeChange: (() => void) | null) {
    this.#connection = connection;
    this.#beforeChange = beforeChange;
  }

  /** Whether a statement that may change something was tried. */
  get changed(): boolean {
    return this.#changed;
  }

  /** Whether there is anything of it to undo. */
  get dirty(): boolean {
    return this.#dirty;
  }

  close(): void {
    this.#closed = true;
  }

  all<R extends Row = Row>(sql: string, params: readonly Value[] = []): Promise<R[]> {
    try {
      const { reads } = this.#check(sql);
      const rows = this.#connection.all(sql, params) as R[];
      if (!reads) this.#dirty = true;
      return Promise.resolve(rows);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  get<R extends Row = Row>(sql: string, params: readonly Value[] = []): Promise<R | null> {
    try {
      const { reads } = this.#check(sql);
      const row = this.#connection.get(sql, params) as R | null;
      if (!reads) this.#dirty = true;
      return Promise.resolve(row);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  run(sql: string, params: readonly Value[] = []): Promise<number> {
    try {
      const { reads, counts } = this.#check(sql);
      const rows = this.#connection.run(sql, params);
      // Most bodies that throw do so because an update found nothing.
      if (!reads && (rows > 0 || !counts)) this.#dirty = true;
      return Promise.resolve(rows);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  onCommit(done: () => void): void {
    this.#checkOpen();
    this.committed.push(done);
  }

  /** The facts of the statement, which is about to run. Throws where it may not. */
  #check(sql: string): StatementFacts {
    this.#checkOpen();
    const facts = this.#connection.facts(sql);
    if (this.#changed || facts.reads) return facts;
    if (this.#beforeChange === null) {
      throw new SubletError("internal", `a read may not change anything: ${sql.trim()}`);
    }
    this.#beforeChange();
    this.#changed = true;
    return facts;
  }

  #checkOpen(): void {
    if (this.#closed) {
      throw new SubletError("internal", "this transaction has ended: its Tx is of no use any more");
    }
    // A full disk or a failed write ends the whole transaction: what follows would commit by itself.
    if (!this.#connection.inTransaction) {
      throw new SubletError("unavailable", "the transaction was undone by an earlier failure");
    }
  }
}

/**
 * Run bodies one at a time, each to its end. Since statements are synchronous, a body that awaits only its `Tx` ends
 * within the microtasks of the tick that started it; one that is still pending in the next tick waits for something
 * else, which may be the lane itself, and is given up.
 */
export class BodyRunner {
  #giveUp: ((error: Error) => void) | null = null;
  #armed = false;

  async run<T>(body: (tx: Tx) => Promise<T>, tx: BodyTx): Promise<T> {
    this.#arm();
    try {
      return await new Promise<T>((resolve, reject) => {
        this.#giveUp = reject;
        body(tx).then(resolve, reject);
      });
    } finally {
      this.#giveUp = null;
      tx.close();
    }
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    setImmediate(() => {
      this.#armed = false;
      this.#giveUp?.(
        new SubletError(
          "internal",
          "a transaction's body awaited something else than its Tx: do that before or after it",
        ),
      );
    });
  }
}
