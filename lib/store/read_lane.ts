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
  #last: Promise<unknown> = Promise.resolve();
  #pending = 0;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#begin = connection.control("BEGIN");
    this.#end = connection.control("COMMIT");
  }

  /** Run `body` at once when the lane is free, else after those that came first. */
  add<T>(body: (tx: Tx) => Promise<T>): Promise<T> {
    const run = this.#pending++ === 0 ? this.#run(body) : this.#last.then(() => this.#run(body));
    this.#last = run.catch(() => {});
    return run;
  }

  /** Resolves when nothing is queued or running. */
  async drained(): Promise<void> {
    while (this.#pending > 0) await this.#last;
  }

  async #run<T>(body: (tx: Tx) => Promise<T>): Promise<T> {
    const tx = new BodyTx(this.#connection, null);
    try {
      this.#begin();
      return await this.#runner.run(body, tx);
    } finally {
      this.#pending--;
      if (this.#connection.inTransaction) this.#end();
    }
  }
}
