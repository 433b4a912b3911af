/** @module The contract between a worker and what runs a kind of job, and what a runner gets of its machine. */

import type { Cas, Cid } from "../cas/mod.ts";
import type { Clock, Ids, Log, Processes } from "../home/mod.ts";
import type { Redaction, Relay, SessionFiles } from "./agent_ports.ts";
import type { SavedPart } from "./stream_shapes.ts";

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
  /**
   * Aborts when the worker ends and the job is to go on without it: a runner that can take jobs over leaves it and
   * returns `left`. Default: never.
   */
  readonly leave?: AbortSignal;
  /** Aborts when the worker is about to end: what cannot be saved soon is left to its next process. Default: never. */
  readonly ending?: AbortSignal;
  /** Record that the job runs at `handle`. False: the lease is stale, so stop and report nothing. */
  started(handle: JobHandle, sessionId: string | null): Promise<boolean>;
  /** The session that the job is known to be by now: the next heartbeat tells the server. */
  identified?(sessionId: string): void;
  /**
   * The values of the secrets that the job lists, by the secret's name; those that the home lacks are left out. Asks
   * until it is answered or `signal` aborts. Rejects with `stale_lease` when the lease is.
   */
  secrets?(signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  /**
   * Tell the server of new bytes of something that the job writes, one try. False: it takes none. Rejects
   * when nobody knows whether it did.
   */
  saved?(part: Omit<SavedPart, "lease">): Promise<boolean>;
}

/**
 * What a runner comes to: a report to send, that the job is lost to this worker (it is queued again), that its lease is
 * stale, or that it is left as it is for a later process of this worker to take over.
 */
export type Outcome =
  | { readonly report: Report }
  | { readonly lost: string; readonly hostFault?: boolean }
  | { readonly stale: true }
  | { readonly left: true };

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
  /** Files of a harness, which lie outside of the home. Default: there are none. */
  readonly sessions?: SessionFiles;
  /** Hides secrets in whatever leaves a job. Default: nothing is hidden. */
  readonly redaction?: Redaction;
  /** What the commands of an agent go through. Default: it can read its messages, and nothing else. */
  readonly relay?: Relay;
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

/** A prompt for a job that runs. */
export interface Prompt {
  /** Names it in the report. */
  readonly id: number;
  readonly text: string;
}

/** What an earlier process of a worker left of a lease that it does not hold any more. */
export interface Salvage {
  readonly lease: number;
  readonly job: unknown;
  readonly report: Report;
}

/** Runs one kind of job. */
export interface JobRunner {
  readonly kind: string;
  /** Whether its reports are sent under a stale lease too: the server keeps them as evidence. Default false. */
  readonly keepsStale?: boolean;
  /** Give the job of `lease` a prompt: null once it will get it, or why it cannot. Default: its jobs take none. */
  prompt?(lease: number, prompt: Prompt): Promise<string | null>;
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
  /**
   * Save what they left of such leases, before {@linkcode JobRunner.removeLeft}. Its `cleanup` follows each report.
   * `ending` aborts when the worker is about to end.
   */
  salvage?(isHeld: (lease: number) => boolean, ending: AbortSignal): AsyncIterable<Salvage>;
  /** Remove what the job left, once its report was accepted or refused. Repeatable. */
  cleanup(job: unknown, lease: number): Promise<void>;
}
