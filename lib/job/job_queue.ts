/** @module Handing jobs to the lease engine: what waits in a table of ours becomes a job, once, also after a crash. */

import type { Cas, Cid } from "../cas/mod.ts";
import { type Clock, isError, type Log, messageOf, SubletError } from "../home/mod.ts";
import type { Db, Tx } from "../store/mod.ts";

/** What a worker must be to get a job. */
export interface Requires {
  readonly pool?: string;
  readonly runner?: string;
  readonly labels?: readonly string[];
}

/** A job to queue, in the shape of `Submission` of lib/lease. */
export interface QueuedJob {
  readonly kind: string;
  readonly key: string;
  /** The job's JSON, in the CAS already. */
  readonly jobCid: Cid;
  readonly requires: Requires;
  readonly campaign: number;
  readonly priority: number;
  readonly repo: number;
  readonly timeoutSeconds: number;
}

/** What a kind of job asks of the lease engine. */
export interface Queue {
  /** Queue a job in this transaction. */
  submit(tx: Tx, job: QueuedJob): Promise<{ readonly job: number }>;
}

/** Something that waits for a job. */
export interface Unsubmitted {
  readonly id: number;
  /** Its job, as JSON text. */
  readonly text: string;
}

/** A table whose rows become jobs. */
export interface JobRows<R extends Unsubmitted> {
  /** Those that wait without a job, from a server that died before it submitted them. */
  unsubmitted(tx: Tx, limit: number): Promise<R[]>;
  /** Whether `id` still has no job. */
  isUnsubmitted(tx: Tx, id: number): Promise<boolean>;
  /** `id` is `job` now. */
  setJob(tx: Tx, id: number, job: number): Promise<void>;
  /** Remove those that still have no job: asking for them failed. */
  forget(tx: Tx, ids: readonly number[]): Promise<void>;
  queued(row: R, jobCid: Cid): QueuedJob;
}

/** What a submitter is made of. */
export interface SubmitterDeps {
  readonly db: Db;
  readonly cas: Cas;
  readonly clock: Clock;
  readonly log: Log;
}

const BATCH = 200;
const PUTS_AT_ONCE = 16;
/** How long until what the store kept from being queued is tried again, milliseconds. */
const RETRY_MS = 5_000;

/** Puts jobs into the CAS and queues them. */
export class Submitter<R extends Unsubmitted> {
  readonly #deps: SubmitterDeps;
  readonly #rows: JobRows<R>;
  /** Names them in the log. */
  readonly #what: string;
  #queue: Queue | null = null;
  /** Takes the next try of {@linkcode resume} back. */
  #retry = () => {};

  constructor(deps: SubmitterDeps, rows: JobRows<R>, what: string) {
    this.#deps = deps;
    this.#rows = rows;
    this.#what = what;
  }

  bind(queue: Queue): void {
    this.#queue = queue;
  }

  /** Queue `rows`, all or none. On a failure their rows are gone again, unless the database is what failed. */
  async submit(rows: readonly R[]): Promise<void> {
    try {
      await this.#submit(rows);
    } catch (error) {
      await this.#deps.db.write((tx) => this.#rows.forget(tx, rows.map(({ id }) => id)));
      throw error;
    }
  }

  /**
   * Queue everything that a server left without a job. While the store cannot be reached this is tried again, in the
   * background.
   */
  async resume(): Promise<void> {
    const { log, clock } = this.#deps;
    try {
      const count = await this.#resumeAll();
      if (count > 0) log.event(`${this.#what}.resumed`, { count });
    } catch (error) {
      if (!isError(error, "unavailable", "unreachable", "busy")) throw error;
      log.event(`${this.#what}.not_resumed`, { error: error.message });
      this.#retry = clock.after(
        RETRY_MS,
        () =>
          void this.resume().catch((failure) =>
            log.event(`${this.#what}.not_resumed`, { error: messageOf(failure) })
          ),
      );
    }
  }

  /** Try nothing again. */
  close(): void {
    this.#retry();
  }

  async #resumeAll(): Promise<number> {
    let count = 0;
    while (true) {
      const rows = await this.#deps.db.read((tx) => this.#rows.unsubmitted(tx, BATCH));
      if (rows.length === 0) return count;
      await this.#submit(rows);
      count += rows.length;
    }
  }

  async #submit(rows: readonly R[]): Promise<void> {
    const queue = this.#queue;
    if (queue === null) throw new SubletError("internal", `${this.#what} are bound to no queue`);
    const cids = await this.#putAll(rows);
    await this.#deps.db.write(async (tx) => {
      for (const row of rows) {
        const jobCid = cids.get(row.id);
        if (jobCid === undefined || !await this.#rows.isUnsubmitted(tx, row.id)) continue;
        const { job } = await queue.submit(tx, this.#rows.queued(row, jobCid));
        await this.#rows.setJob(tx, row.id, job);
      }
    });
  }

  async #putAll(rows: readonly R[]): Promise<Map<number, Cid>> {
    const cids = new Map<number, Cid>();
    const left = [...rows];
    await Promise.all(Array.from({ length: PUTS_AT_ONCE }, async () => {
      for (let row = left.shift(); row !== undefined; row = left.shift()) {
        cids.set(row.id, await this.#deps.cas.put(new TextEncoder().encode(row.text)));
      }
    }));
    return cids;
  }
}
