/** @module The read lane: snapshots on a connection of their own, one after another. */

import { BodyRunner, BodyTx } from "./body.ts";
import type { Connection } from "./connection.ts";
import type { Tx } from "./port.ts";

/** Runs the bodies of reads. */
export class ReadLane {
  readonly #connection: Connection;
  readonly #runner = new BodyRunner();
  readonly #begin: () => void;
  readonly #end: () => void;
  readonly #abandon: () => void;
  readonly #queue: (() => Promise<void>)[] = [];
  #running = false;
  #idle: (() => void)[] = [];

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#begin = connection.control("BEGIN");
    this.#end = connection.control("COMMIT");
    this.#abandon = connection.control("ROLLBACK");
  }

  /** Run `body` at once when the lane is free, else after those that came first. */
  add<T>(body: (tx: Tx) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.push(() => this.#run(body).then(resolve, reject));
      if (!this.#running) this.#runAll();
    });
  }

  /** Resolves when nothing is queued or running. */
  drained(): Promise<void> {
    if (!this.#running) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  async #runAll(): Promise<void> {
    this.#running = true;
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      await next();
    }
    this.#running = false;
    for (const done of this.#idle.splice(0)) done();
  }

  async #run<T>(body: (tx: Tx) => Promise<T>): Promise<T> {
    const tx = new BodyTx(this.#connection, null);
    try {
      // Left by an end that failed.
      if (this.#connection.inTransaction) this.#abandon();
      this.#begin();
      return await this.#runner.run(body, tx);
    } finally {
      if (this.#connection.inTransaction) this.#end();
    }
  }
}
