/** @module Handing evaluations to the lease engine. */

import type { Cas, Cid } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Db, Tx } from "../store/mod.ts";
import { evaluationJob } from "./shapes.ts";
import {
  forgetUnsubmitted,
  isUnsubmitted,
  setJob,
  type Unsubmitted,
  unsubmitted,
} from "./evaluation_store_requests.ts";

/** A job to queue, in the shape of `Submission` of lib/lease. */
export interface QueuedJob {
  readonly kind: string;
  readonly key: string;
  /** The job's JSON, in the CAS already. */
  readonly jobCid: Cid;
  readonly requires: { readonly pool?: string; readonly runner?: string };
  readonly campaign: number;
  readonly priority: number;
  readonly repo: number;
  readonly timeoutSeconds: number;
}

/** What evaluations ask of the lease engine. */
export interface Queue {
  /** Queue a job in this transaction. */
  submit(tx: Tx, job: QueuedJob): Promise<{ readonly job: number }>;
}

/** How long a checkout with its inputs may take, beside the command. */
const SETUP_SECONDS = 1800;
const BATCH = 200;
const PUTS_AT_ONCE = 16;

/** Puts the jobs of evaluations into the CAS and queues them. */
export class Submitter {
  readonly #db: Db;
  readonly #cas: Cas;
  #queue: Queue | null = null;

  constructor(db: Db, cas: Cas) {
    this.#db = db;
    this.#cas = cas;
  }

  bind(queue: Queue): void {
    this.#queue = queue;
  }

  /** Queue `rows`, all or none. On a failure their rows are gone again, unless the database is what failed. */
  async submit(rows: readonly Unsubmitted[]): Promise<void> {
    try {
      await this.#submit(rows);
    } catch (error) {
      await this.#db.write((tx) => forgetUnsubmitted(tx, rows.map(({ id }) => id)));
      throw error;
    }
  }

  /** Queue every evaluation that a server left without a job; how many. */
  async resume(): Promise<number> {
    let count = 0;
    while (true) {
      const rows = await this.#db.read((tx) => unsubmitted(tx, BATCH));
      if (rows.length === 0) return count;
      await this.#submit(rows);
      count += rows.length;
    }
  }

  async #submit(rows: readonly Unsubmitted[]): Promise<void> {
    const queue = this.#queue;
    if (queue === null) throw new SubletError("internal", "evaluations are bound to no queue");
    const cids = await this.#putAll(rows);
    await this.#db.write(async (tx) => {
      for (const row of rows) {
        const jobCid = cids.get(row.id);
        if (jobCid === undefined || !await isUnsubmitted(tx, row.id)) continue;
        const { job } = await queue.submit(tx, queuedJob(row, jobCid));
        await setJob(tx, row.id, job);
      }
    });
  }

  async #putAll(rows: readonly Unsubmitted[]): Promise<Map<number, Cid>> {
    const cids = new Map<number, Cid>();
    const left = [...rows];
    await Promise.all(Array.from({ length: PUTS_AT_ONCE }, async () => {
      for (let row = left.shift(); row !== undefined; row = left.shift()) {
        cids.set(row.id, await this.#cas.put(new TextEncoder().encode(row.text)));
      }
    }));
    return cids;
  }
}

function queuedJob(row: Unsubmitted, jobCid: Cid): QueuedJob {
  return {
    kind: "evaluation",
    key: String(row.id),
    jobCid,
    requires: { runner: "process", ...(row.pool === null ? {} : { pool: row.pool }) },
    campaign: row.campaign,
    priority: row.priority,
    repo: row.campaign,
    timeoutSeconds: longest(row.text),
  };
}

/** Seconds in which a job's runs are over, each with its checkout and its inputs, and each killed once by a stranger. */
function longest(text: string): number {
  const { timeout, repeats, bar } = evaluationJob.parse(JSON.parse(text));
  return repeats * (bar === null ? 1 : 2) * 2 * (timeout + SETUP_SECONDS);
}
