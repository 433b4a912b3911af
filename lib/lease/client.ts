/** @module The calls of a worker on its leases: over HTTP in real life, in one process in the simulator. */

import type { Cid } from "../cas/mod.ts";
import type { JobHandle, Report, SavedPart } from "../job/mod.ts";
import type { Answer, Grant, HostSample, Message, NoLease, Timing } from "./wire.ts";

/** What a worker says of itself when it starts. */
export interface WorkerInfo {
  readonly version: string;
  readonly pool: string;
  readonly runners: readonly string[];
  readonly labels: readonly string[];
  readonly sample: HostSample;
  /** A tiny blob that the worker just put in its CAS: the server's must hold it too. */
  readonly casProbe: Cid;
  /** This process, and the dead one of the same home that it succeeds. */
  readonly incarnation: string;
  readonly succeeds: string | null;
  /** It takes exactly one lease, and the server grants it no second. Default false. */
  readonly once?: boolean;
}

/** What a command of an agent came to. */
export interface CommandResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit_code: number;
}

/** What a worker learns when it registers. */
export interface Registration {
  readonly worker: string;
  readonly timing: Timing;
  readonly held: readonly Grant[];
  readonly cursor: number;
}

/**
 * The calls of a worker, each one try: it answers, or rejects with a typed error. `unreachable`, `unavailable` and
 * `busy` may be tried again with the same arguments. `stale_lease`, `not_addressed`, `missing_blobs` and `not_sent`
 * concern that call's lease alone. `dismissed`, `unauthenticated`, `permission_denied`, `reserved`, `protocol`,
 * `other_cas` and `superseded` end the worker. `unknown_worker` asks it to register again. Anything else fails that
 * call alone.
 */
export interface LeaseClient {
  register(info: WorkerInfo, signal?: AbortSignal): Promise<Registration>;
  acquire(requestId: string, sample: HostSample, signal?: AbortSignal): Promise<Grant | NoLease>;
  started(
    lease: number,
    handle: JobHandle,
    sessionId: string | null,
    signal?: AbortSignal,
  ): Promise<void>;
  heartbeat(
    leases: ReadonlyMap<number, string | null>,
    sample: HostSample,
    signal?: AbortSignal,
  ): Promise<Map<number, Answer>>;
  report(lease: number, requestId: string, report: Report, signal?: AbortSignal): Promise<void>;
  /** `hostFault`: for a fault of this machine, which is none of the job's attempts. */
  lost(lease: number, reason: string, signal?: AbortSignal, hostFault?: boolean): Promise<void>;
  /** This process has ended: its name is free. A server that has no such call answers anything. */
  leave?(signal?: AbortSignal): Promise<void>;
  /** A long-poll of at most `wait` seconds for the messages after `after`. */
  messages(after: number, wait: number, signal?: AbortSignal): Promise<readonly Message[]>;
  queued(message: number, error: string | null, signal?: AbortSignal): Promise<void>;
  /** The values of the secrets that the job of `lease` lists, by name; those that the home lacks are left out. */
  secrets?(lease: number, signal?: AbortSignal): Promise<ReadonlyMap<string, string>>;
  /**
   * Run a command of the agent of `lease` on the server. One that is not answered may have run: `neverLeft` of lib/net
   * tells whether it cannot have.
   */
  cli?(
    lease: number,
    argv: readonly string[],
    stdin: string | null,
    signal?: AbortSignal,
  ): Promise<CommandResult>;
  /** New bytes of something that a job writes. A server that has no such call answers anything. */
  saved?(part: SavedPart, signal?: AbortSignal): Promise<void>;
  /** Null: still building, ask again. */
  send(
    repo: number,
    revisions: readonly string[],
    have: readonly string[],
    wait: number,
    signal?: AbortSignal,
  ): Promise<Cid[] | null>;
}
