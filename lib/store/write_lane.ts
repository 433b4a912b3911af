/**
 * @module The write lane: bodies that arrive together run in one transaction and are answered once it is durable.
 */

import { setImmediate } from "node:timers";
import { SubletError } from "../home/mod.ts";
import { BodyRunner, BodyTx } from "./body.ts";
import type { Connection } from "./connection.ts";
import { Durable } from "./durable.ts";
import type { Tx } from "./port.ts";

interface Entry {
  readonly body: (tx: Tx) => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Whether it may change something: only a database in memory sends its reads here. */
  readonly writes: boolean;
  /** Whether it may run again from its start. */
  readonly repeatable: boolean;
}

/** Turns of the event loop that a transaction waits for more bodies, at most. */
const MAX_TURNS = 8;

/** How a body ended, before the commit. */
type Outcome =
  | { readonly tx: BodyTx; readonly value: unknown }
  /** `dirty`: it has changed something, which is to be undone. */
  | { readonly error: unknown; readonly dirty: boolean };

/** Runs the transactions of the one connection that writes. */
export class WriteLane {
  readonly #connection: Connection;
  readonly #durable: Durable;
  readonly #runner = new BodyRunner();
  readonly #begin: () => void;
  readonly #commit: () => void;
  readonly #rollback: () => void;
  readonly #savepoint: () => void;
  readonly #release: () => void;
  readonly #rollbackTo: () => void;
  readonly #queryOnly: readonly [() => void, () => void];
  #queue: Entry[] = [];
  #scheduled = false;
  #idle: (() => void)[] = [];

  /** `sync` makes what was committed durable; null where a commit needs none. */
  constructor(connection: Connection, sync: (() => Promise<void>) | null) {
    this.#connection = connection;
    this.#durable = new Durable(sync);
    this.#begin = connection.control("BEGIN IMMEDIATE");
    this.#commit = connection.control("COMMIT");
    this.#rollback = connection.control("ROLLBACK");
    this.#savepoint = connection.control("SAVEPOINT body");
    this.#release = connection.control("RELEASE body");
    this.#rollbackTo = connection.control("ROLLBACK TO body");
    this.#queryOnly = [
      connection.control("PRAGMA query_only = 0"),
      connection.control("PRAGMA query_only = 1"),
    ];
  }

  /** Queue `body` for the next transaction. */
  add<T>(
    body: (tx: Tx) => Promise<T>,
    { writes = true, repeatable = false }: { writes?: boolean; repeatable?: boolean } = {},
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#durable.check();
      this.#queue.push({
        body,
        resolve: resolve as (value: unknown) => void,
        reject,
        writes,
        repeatable,
      });
      this.#schedule();
    });
  }

  /** Resolves when nothing is queued, running or waits for its sync. */
  async drained(): Promise<void> {
    if (this.#scheduled) await new Promise<void>((resolve) => this.#idle.push(resolve));
    await this.#durable.settled();
  }

  /** Resolves when all that is committed now is durable and answered; null when it is. Rejects when it cannot be. */
  settled(): Promise<void> | null {
    return this.#durable.settled();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#gather(0, MAX_TURNS);
  }

  /**
   * Wait while more bodies arrive: a transaction has a cost of its own, so those that come together share one. A body
   * that is alone after a turn of the event loop does not wait.
   */
  #gather(before: number, turns: number): void {
    setImmediate(() => {
      const { length } = this.#queue;
      if (turns > 1 && length > 1 && length > before) this.#gather(length, turns - 1);
      else void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#queue;
    this.#queue = [];
    try {
      await this.#transact(batch);
    } finally {
      this.#scheduled = false;
      if (this.#queue.length > 0) this.#schedule();
      else for (const done of this.#idle.splice(0)) done();
    }
  }

  async #transact(batch: readonly Entry[]): Promise<void> {
    let outcomes: Outcome[];
    try {
      outcomes = await this.#runAll(batch);
    } catch (error) {
      for (const { reject } of batch) reject(error);
      this.#abandon();
      return;
    }
    const changed = outcomes.some((outcome) => "tx" in outcome && outcome.tx.changed);
    this.#durable.add({
      changed,
      settle: () => settle(batch, outcomes),
      fail: (error) => batch.forEach(({ reject }) => reject(error)),
    });
  }

  /**
   * Run the bodies in one transaction, up to its commit. To be able to undo one alone takes a savepoint for each, which
   * costs a tenth of all that a small body does, since SQLite then keeps each page as it was. So bodies that may run
   * again do without, and run again with savepoints when one of them is to be undone.
   */
  async #runAll(batch: readonly Entry[]): Promise<Outcome[]> {
    const plain = batch.length === 1 || batch.every(({ repeatable }) => repeatable);
    const { outcomes, again } = await this.#attempt(batch, !plain);
    return again ? (await this.#attempt(batch, true)).outcomes : outcomes;
  }

  /** The outcomes, committed; or undone, since one was to be and there were no savepoints: `again` for those of others. */
  async #attempt(
    batch: readonly Entry[],
    savepoints: boolean,
  ): Promise<{ readonly outcomes: Outcome[]; readonly again: boolean }> {
    this.#begin();
    const outcomes: Outcome[] = [];
    for (const entry of batch) {
      const outcome = await this.#runOne(entry, savepoints);
      outcomes.push(outcome);
      if (!this.#connection.inTransaction) {
        throw "error" in outcome && outcome.error instanceof SubletError ? outcome.error : lost();
      }
      if (savepoints || !("error" in outcome) || !outcome.dirty) continue;
      this.#rollback();
      return { outcomes, again: batch.length > 1 };
    }
    this.#commit();
    return { outcomes, again: false };
  }

  /** Undo what is left of a transaction that failed. Where even that fails, no other can begin. */
  #abandon(): void {
    try {
      if (this.#connection.inTransaction) this.#rollback();
    } catch (error) {
      this.#durable.end(error);
    }
  }

  async #runOne(entry: Entry, savepoint: boolean): Promise<Outcome> {
    if (!entry.writes) return await this.#runRead(entry);
    const tx = new BodyTx(this.#connection, savepoint ? this.#savepoint : nothing);
    try {
      const value = await this.#runner.run(entry.body, tx);
      // Left open they would nest, and every page that is written would be looked up in each.
      if (tx.changed && savepoint) this.#release();
      return { tx, value };
    } catch (error) {
      if (tx.changed && savepoint && this.#connection.inTransaction) {
        this.#rollbackTo();
        this.#release();
      }
      return { error, dirty: tx.dirty };
    }
  }

  async #runRead(entry: Entry): Promise<Outcome> {
    const tx = new BodyTx(this.#connection, null);
    const [off, on] = this.#queryOnly;
    on();
    try {
      return { tx, value: await this.#runner.run(entry.body, tx) };
    } catch (error) {
      return { error, dirty: false };
    } finally {
      off();
    }
  }
}

function nothing(): void {}

function lost(): SubletError {
  return new SubletError(
    "unavailable",
    "the database undid the whole transaction after a failure: nothing was stored. Try again",
  );
}

/** Answer the bodies of a transaction that was committed, in order. */
function settle(batch: readonly Entry[], outcomes: readonly Outcome[]): void {
  outcomes.forEach((outcome, index) => {
    const entry = batch[index];
    if (entry === undefined) return;
    if ("error" in outcome) return entry.reject(outcome.error);
    for (const done of outcome.tx.committed) {
      try {
        done();
      } catch (error) {
        // What was written is durable, so the writer is answered; the fault is the callback's own.
        reportError(error);
      }
    }
    entry.resolve(outcome.value);
  });
}
