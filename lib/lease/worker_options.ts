/** @module What a worker is given, and how it can end. */

import type { Cas } from "../cas/mod.ts";
import type { Clock, Ids, Log, SubletError } from "../home/mod.ts";
import type { JobRunner } from "../job/mod.ts";
import type { LeaseClient, Registration } from "./client.ts";
import type { Spool } from "./spool.ts";
import type { HostGuard } from "./worker_host.ts";
import type { HostSample } from "./wire.ts";

/** Which process of a worker this is. */
export interface Incarnation {
  readonly id: string;
  /**
   * Dead processes of the same home, one of which the server may take for the living one: the one that registered
   * last, and those that may have.
   */
  readonly succeeds: readonly string[];
  /** The server knows {@linkcode id} now: remember it for the next process. */
  registered(): Promise<void>;
}

/** A worker's parts and parameters. */
export interface WorkerOptions {
  readonly client: LeaseClient;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  /** Where job descriptions are read, and the probe that shows the server's store is the same is put. */
  readonly cas: Pick<Cas, "put" | "get">;
  readonly sampleHost: () => Promise<HostSample>;
  readonly runners: readonly JobRunner[];
  /** The evaluator runners of this machine, which evaluations require by name. Default: `process`. */
  readonly evaluators?: readonly string[];
  readonly spool: Spool;
  readonly incarnation: Incarnation;
  readonly pool: string;
  readonly version: string;
  readonly labels?: readonly string[];
  /** Take one lease, and leave once its report is accepted. */
  readonly once?: boolean;
  /** Leave after so many seconds in which the server answered nothing and no job ran. Null: never. */
  readonly orphanExitSeconds?: number | null;
  /** How long a drain call lets jobs run, unless it is told otherwise. Default 30. */
  readonly drainSeconds?: number;
  /** Deliver a prompt to the job of `lease`: null, or why it cannot. Default: its runner does. */
  readonly prompt?: (lease: number, text: string) => Promise<string | null>;
  /** Called after each lease whose report was accepted or refused, with its leftovers gone. */
  readonly onSettled?: () => Promise<void>;
  /** What keeps it off jobs that its machine could not do. Default: no disk is asked for. */
  readonly host?: HostGuard;
  /** Called at the first registration. */
  readonly onRegistered?: (registration: Registration) => void;
}

/**
 * How a worker ended: drained (by the server or a drain call), its one lease done, its server silent, stopped, or
 * refused by the server for good.
 */
export type WorkerEnd =
  | { readonly how: "drained" | "once" | "orphaned" | "stopped" }
  | { readonly how: "refused"; readonly error: SubletError };
