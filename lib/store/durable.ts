/**
 * @module Answers that wait until what was committed is on the disk. A commit goes into the WAL without a sync; one sync
 * at a time, off the event loop, makes all that was committed before it durable, while the next transactions run.
 */

import { messageOf, SubletError } from "../home/mod.ts";

/** A committed transaction whose callers are to be answered. */
export interface Committed {
  /** Whether it changed anything: one that did not waits only for those before it, which it may have seen. */
  readonly changed: boolean;
  readonly settle: () => void;
  readonly fail: (error: SubletError) => void;
}

/** The transactions of one connection that are not answered yet, in order. */
export class Durable {
  readonly #sync: (() => Promise<void>) | null;
  #waiting: Committed[] = [];
  #syncing: Promise<void> | null = null;
  /** Why nothing more is taken. */
  #broken: SubletError | null = null;

  /** `sync` makes every commit so far durable. Null: a commit is as durable as it gets at once. */
  constructor(sync: (() => Promise<void>) | null) {
    this.#sync = sync;
  }

  /** Throws once a sync has failed: what the disk holds is unknown from then on, so nothing may build on it. */
  check(): void {
    if (this.#broken !== null) throw this.#broken;
  }

  /** Answer `committed` when it and all before it are durable. */
  add(committed: Committed): void {
    if (this.#broken !== null) return committed.fail(this.#broken);
    if (this.#syncing === null && (this.#sync === null || !committed.changed)) {
      return committed.settle();
    }
    this.#waiting.push(committed);
    if (this.#syncing === null) this.#start();
  }

  /** Resolves when all that is committed now is durable and answered; null when it is. Rejects when a sync fails. */
  settled(): Promise<void> | null {
    this.check();
    if (this.#syncing === null) return null;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ changed: false, settle: resolve, fail: reject });
    });
  }

  #start(): void {
    const sync = this.#sync;
    if (sync === null) return;
    const covered = this.#waiting;
    this.#waiting = [];
    this.#syncing = sync().then(
      () => this.#synced(covered),
      (error) => {
        this.#syncing = null;
        for (const committed of covered) committed.fail(this.end(error));
      },
    );
  }

  #synced(covered: readonly Committed[]): void {
    this.#syncing = null;
    for (const committed of covered) committed.settle();
    const changed = this.#waiting.findIndex((committed) => committed.changed);
    const seen = this.#waiting.splice(0, changed < 0 ? this.#waiting.length : changed);
    for (const committed of seen) committed.settle();
    if (this.#waiting.length > 0 && this.#syncing === null) this.#start();
  }

  /** Take nothing more, because of `cause`, and fail what waits; the error that says so. */
  end(cause: unknown): SubletError {
    const error = this.#broken ??= new SubletError(
      "unavailable",
      `the disk did not make a commit durable (${messageOf(cause)}): nothing more is stored. ` +
        "Look after the disk, then restart",
      { cause },
    );
    for (const committed of this.#waiting.splice(0)) committed.fail(error);
    return error;
  }
}
