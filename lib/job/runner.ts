/** @module The contract between a worker and what runs a kind of job, and what a runner gets of its machine. */

import type { Cas, Cid } from "../cas/mod.ts";
import type { Clock, Ids, Log, Processes } from "../home/mod.ts";

/** Where a job runs: what tells a restarted worker which process it was. Shapes of worker protocol 7. */
export type JobHandle =
  | { readonly pgid: number; readonly start_time: number | null }
  | { readonly runtime: string; readonly data: Readonly<Record<string, unknown>> };

/** A report, as JSON, tagged by `kind`. */
export type Report = { readonly kind: string } & Readonly<Record<string, unknown>>;

/** What a running job may ask of its worker. */
export interface JobControl {
  /** The lease, which is the fencing token. */
  readonly lease: number;
  /** Aborts when the job must stop: a revoke, the worker's own stop, its silence, a stale lease. It still reports. */
  readonly stop: AbortSignal;
  /** Record that the job runs at `handle`. False: the lease is stale, so stop and report nothing. */
  started(handle: JobHandle, sessionId: string | null): Promise<boolean>;
}

/** What a runner comes to: a report to send, or that the job is lost to this worker (it is queued again). */
export type Outcome = { readonly report: Report } | { readonly lost: string } | {
  readonly stale: true;
};

/** The machine that a job runs on. */
export interface Site {
  /** Absolute path of the worker's home: everything a job writes is beneath it. */
  readonly home: string;
  /** Names the worker among those that share its home: letters, digits and `-`. Default `worker`. */
  readonly worker?: string;
  readonly cas: Cas;
  readonly processes: Processes;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  /**
   * Ask the server to put what `revisions` of campaign `repo` have beyond `have` into the CAS; the blobs to take, in
   * order. Rejects with `not_sent` when it cannot.
   */
  send(
    repo: number,
    revisions: readonly string[],
    have: readonly string[],
    signal: AbortSignal,
  ): Promise<Cid[]>;
}

/** Runs one kind of job. */
export interface JobRunner {
  readonly kind: string;
  /** Run the job whose JSON is `job`. Rejects only on a fault of its own, which loses the job. */
  run(job: unknown, control: JobControl): Promise<Outcome>;
  /** Take over a job that an earlier process of this worker left, or clean up what it left and say that it is lost. */
  recover(
    job: unknown,
    held: { readonly handle: JobHandle | null; readonly startedAt: string | null },
    control: JobControl,
  ): Promise<Outcome>;
  /**
   * Before the worker is known to its server: stop what earlier processes of this worker left running and nobody is to
   * take over. Repeatable.
   */
  stopLeft?(): Promise<void>;
  /** Remove what they left of leases that are not held any more. */
  removeLeft?(isHeld: (lease: number) => boolean): Promise<void>;
  /** Remove what the job left, once its report was accepted or refused. Repeatable. */
  cleanup(job: unknown, lease: number): Promise<void>;
}
