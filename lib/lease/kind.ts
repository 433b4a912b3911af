/** @module What the lease engine asks of a kind of job. It knows no more of a job than its kind, key and requirements. */

import type { Cid } from "../cas/mod.ts";
import type { Tx } from "../store/mod.ts";

/** A job to queue. */
export interface Submission {
  /** Such as `evaluation`. */
  readonly kind: string;
  /** Names the job within its kind (the evaluation's id). At most one open job has a given (kind, key). */
  readonly key: string;
  /** The job's JSON, in the CAS already. */
  readonly jobCid: Cid;
  /** Worker requirements. */
  readonly requires: {
    readonly pool?: string;
    readonly runner?: string;
    readonly labels?: readonly string[];
  };
  /** Whose job it is, for fairness: a campaign's id. */
  readonly campaign: number | null;
  /** Higher goes first. Default 0. */
  readonly priority?: number;
  /** How often it may be leased before it is dead. Default 3. */
  readonly maxAttempts?: number;
  /** How long it may run once it has started, before it is revoked, in seconds. Default: as long as it takes. */
  readonly timeoutSeconds?: number;
  /** The repo of record whose versions a worker of this job may ask for. */
  readonly repo: number | null;
}

/** A job as its kind sees it. */
export interface JobRef {
  readonly id: number;
  readonly kind: string;
  readonly key: string;
  readonly lease: number;
  readonly worker: string | null;
  /** Why the job was cancelled while it ran. Its report is applied, but the job must not end as a success. */
  readonly revoked?: string;
}

/** What became of a {@linkcode Submission}. */
export interface Submitted {
  readonly job: number;
  /** The job's newest lease. */
  readonly lease: number;
  /** False: a job of that kind and key is open already, and this is it. */
  readonly created: boolean;
}

/** How a job ended without a report. */
export type JobEnd = "dead" | "cancelled";

/** A kind of job, on the server. Its calls that get a `Tx` run in the transaction that changes the lease. */
export interface JobKind {
  readonly kind: string;
  /** Slots of a pool that count for this kind. */
  readonly slots: "agents" | "evaluations";
  /** Judge a report from the wire. Throws `invalid_body` or `unsafe_path`; changes nothing. */
  parse(report: unknown): unknown;
  /** Every blob that a parsed report names: all must be in the CAS before it is applied. */
  blobs(report: unknown): Cid[];
  /** Apply a parsed report. Throws `stale_lease` when the job is settled already. */
  apply(tx: Tx, job: JobRef, report: unknown): Promise<void>;
  /** The job runs (a worker said so), again after each restart of it. */
  started(tx: Tx, job: JobRef): Promise<void>;
  /** An attempt was lost, and the job waits again; or it ended without a report. */
  lost(tx: Tx, job: JobRef, reason: string): Promise<void>;
  ended(tx: Tx, job: JobRef, end: JobEnd, reason: string): Promise<void>;
  /** Whether a job whose attempt was lost may be done again; else it ends. Default: yes, up to its attempts. */
  mayRepeat?(tx: Tx, job: JobRef): Promise<boolean>;
  /** A worker says what became of a prompt to the job: null is that it will get it. Once for each. */
  answered?(tx: Tx, job: JobRef, prompt: number, error: string | null): Promise<void>;
  /** A job that had ended waits again, because somebody asked to try it again. */
  retried?(tx: Tx, job: JobRef): Promise<void>;
}
