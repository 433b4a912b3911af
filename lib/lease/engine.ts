/**
 * @module The lease engine: jobs are queued, workers take them on leases, and nothing counts twice. It knows no more of a
 * job than its kind, key and requirements, and touches the machine only through its ports.
 */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import { acquire } from "./acquire.ts";
import { adopt } from "./adopt.ts";
import { cancelJob, type Cancelled, retryJob } from "./cancel.ts";
import { Core, type EngineOptions } from "./core.ts";
import { recoverJob } from "./ending.ts";
import type { Pool } from "./gates.ts";
import { heartbeat } from "./heartbeat.ts";
import { leave } from "./leave.ts";
import { fenced, refOf } from "./fence.ts";
import type { JobRef, Submission, Submitted } from "./kind.ts";
import type { WorkerCaller } from "./member.ts";
import { knownMember, writeDown } from "./members.ts";
import { messages, queued } from "./messages.ts";
import { register, type Registered, type RegisterRequest, type WireGrant } from "./register.ts";
import { lost, type Receipt, report, started } from "./report.ts";
import { drain, pause, prompt, remove, resume } from "./standing.ts";
import {
  type EngineStatus,
  engineStatus,
  listPools,
  listWorkers,
  type PoolView,
  type WorkerView,
} from "./status.ts";
import { submit } from "./submit.ts";
import { Sweep } from "./sweep.ts";
import { type EventView, type Evidence, evidence, listEvents } from "./timeline.ts";
import { type JobDetails, type JobFilter, type JobView, listJobs, showJob } from "./views.ts";
import type { Answer, HostSample, Message, NoLease } from "./wire.ts";

/**
 * The engine. Call {@linkcode LeaseEngine.start} first and {@linkcode LeaseEngine.close} last. Calls of workers throw
 * the typed errors that `LeaseClient` names; `unavailable` before the start and after the close.
 */
export class LeaseEngine {
  readonly #core: Core;
  readonly #sweep: Sweep;

  constructor(options: EngineOptions) {
    this.#core = new Core(options);
    this.#sweep = new Sweep(this.#core);
  }

  /** Take over what the database holds: every live lease gets a full period from now. */
  async start(): Promise<void> {
    if (this.#core.state !== "new") {
      throw new SubletError("internal", "the engine was started before");
    }
    await adopt(this.#core);
    this.#core.state = "open";
    this.#core.drains.adopt();
    this.#sweep.start();
    this.#core.offers.pumpAll();
  }

  /** Answer every long-poll at once and do nothing more. Leases stay as they are. */
  async close(): Promise<void> {
    const core = this.#core;
    if (core.state === "closed") return;
    const wasOpen = core.state === "open";
    core.state = "closed";
    for (const member of core.roster.all()) member.poll?.("nothing");
    core.offers.close();
    core.watchers.close();
    await core.delays.close();
    await core.deadlines.close();
    await core.drains.close();
    await this.#sweep.close();
    if (wasOpen) await writeDown(core);
  }

  /** Queue a job, in the caller's transaction. Workers hear of it after the commit. */
  submit(tx: Tx, job: Submission): Promise<Submitted> {
    return submit(this.#core, tx, job);
  }

  /** Cancel a job, in the caller's transaction when it gives one. Throws `not_found`. Repeatable. */
  cancelJob(job: number, reason: string, tx?: Tx): Promise<Cancelled> {
    const why = reason.replaceAll("\0", " ").slice(0, 2000).trim() || "cancelled";
    return tx === undefined
      ? this.#core.db.write((own) => cancelJob(this.#core, own, job, why))
      : cancelJob(this.#core, tx, job, why);
  }

  /** Queue a dead or cancelled job again, with all its attempts; its new lease. Throws `not_found`, `conflict`. */
  retryJob(job: number, tx?: Tx): Promise<number> {
    return tx === undefined
      ? this.#core.db.write((own) => retryJob(this.#core, own, job))
      : retryJob(this.#core, tx, job);
  }

  /** What the last lease of a dead job left was taken after all, in the caller's transaction. Throws `not_found`. */
  recovered(job: number, tx: Tx): Promise<void> {
    return recoverJob(this.#core, tx, job);
  }

  /** Other capacities, from now on. */
  setPools(pools: Readonly<Record<string, Pool>>): void {
    const core = this.#core;
    core.pools = new Map(Object.entries(pools));
    for (const member of core.roster.all()) core.offers.reconsider(member);
    core.offers.pumpAll();
  }

  /** A worker starts. Throws `other_cas`, `dismissed`, `permission_denied`, `superseded`. */
  register(caller: WorkerCaller, info: RegisterRequest): Promise<Registered> {
    return register(this.#core, caller, info);
  }

  /** A worker's process has ended. Throws `superseded`, `unknown_worker`. */
  leave(caller: WorkerCaller): Promise<void> {
    return leave(this.#core, caller);
  }

  /** One lease, or why there is none. Repeatable with its request id. */
  acquire(
    caller: WorkerCaller,
    requestId: string,
    sample: HostSample,
  ): Promise<WireGrant | NoLease> {
    return acquire(this.#core, caller, requestId, sample);
  }

  started(
    caller: WorkerCaller,
    lease: number,
    handle: unknown,
    sessionId: string | null,
  ): Promise<void> {
    return started(this.#core, caller, lease, handle, sessionId);
  }

  heartbeat(
    caller: WorkerCaller,
    leases: ReadonlyMap<number, string | null>,
    sample: HostSample,
  ): Promise<Map<number, Answer>> {
    return heartbeat(this.#core, caller, leases, sample);
  }

  report(caller: WorkerCaller, lease: number, requestId: string, body: unknown): Promise<Receipt> {
    return report(this.#core, caller, lease, requestId, body);
  }

  lost(
    caller: WorkerCaller,
    lease: number,
    reason: string,
    by: "worker" | "machine" = "worker",
  ): Promise<void> {
    return lost(this.#core, caller, lease, reason, by);
  }

  /** A long-poll of at most `wait` seconds; none when it ran out, the caller left, or the engine closes. */
  messages(
    caller: WorkerCaller,
    after: number,
    wait: number,
    signal?: AbortSignal,
  ): Promise<Message[]> {
    return messages(this.#core, caller, after, wait, signal);
  }

  queued(caller: WorkerCaller, message: number, error: string | null): Promise<void> {
    return queued(this.#core, caller, message, error);
  }

  /** Whether the caller holds a live lease of a job of the repo of record `repo`. */
  async worksOn(caller: WorkerCaller, repo: number): Promise<boolean> {
    await knownMember(this.#core, caller);
    const row = await this.#core.db.read((tx) =>
      tx.get<Row & { one: number }>(
        `SELECT 1 AS one FROM leases l JOIN jobs j ON j.id = l.job_id
         WHERE l.worker = ? AND l.acquired_at IS NOT NULL AND l.ended_at IS NULL AND j.repo = ?
           AND l.incarnation IS NOT DISTINCT FROM ? LIMIT 1`,
        [caller.name, repo, caller.incarnation],
      )
    );
    return row !== null;
  }

  /**
   * Send a text to what a running job runs, in the caller's transaction when it gives one; the message's id. Throws
   * `not_found`, `conflict`.
   */
  prompt(job: number, id: number, text: string, tx?: Tx): Promise<number> {
    return tx === undefined
      ? this.#core.db.write((own) => prompt(this.#core, own, job, id, text))
      : prompt(this.#core, tx, job, id, text);
  }

  /** Run `body` in a transaction in which the caller holds `lease`, with its job. Throws `stale_lease` when it does not. */
  async holding<T>(
    caller: WorkerCaller,
    lease: number,
    body: (tx: Tx, job: JobRef) => Promise<T>,
  ): Promise<T> {
    await knownMember(this.#core, caller);
    return await this.#core.db.write(async (tx) =>
      body(tx, refOf(await fenced(tx, caller, lease)))
    );
  }

  /**
   * The worker takes no more leases, and leaves when it has reported. What it still holds after `deadlineSeconds` is
   * taken from it; null: never. Throws `not_found`. Repeatable, with another deadline or reason.
   */
  drain(
    worker: string,
    reason: string | null = null,
    deadlineSeconds: number | null = null,
  ): Promise<void> {
    return drain(this.#core, worker, reason, deadlineSeconds);
  }

  /** The worker takes no more leases, and stays. Throws `not_found`. Repeatable. */
  pause(worker: string, reason: string | null = null): Promise<void> {
    return pause(this.#core, worker, reason);
  }

  /** A drained or paused worker may take leases again. Throws `not_found`. Repeatable. */
  resume(worker: string): Promise<void> {
    return resume(this.#core, worker);
  }

  /** Forget a silent worker that holds nothing. Throws `not_found`, `conflict`. */
  removeWorker(worker: string): Promise<void> {
    return remove(this.#core, worker);
  }

  /** Look for silence now instead of in time. */
  sweep(): Promise<void> {
    return this.#sweep.now();
  }

  listJobs(filter?: JobFilter): Promise<JobView[]> {
    return listJobs(this.#core, filter);
  }

  /** Throws `not_found`. */
  showJob(job: number): Promise<JobDetails> {
    return showJob(this.#core, job);
  }

  /** The refused reports of a job. */
  evidence(job: number): Promise<Evidence[]> {
    return evidence(this.#core, job);
  }

  /**
   * What happened after the event `after` beyond the usual course of leases, oldest first: losses, expiries, stale
   * reports, cancels, deaths, and workers that joined, fell silent or were drained.
   */
  events(after: number, limit = 100): Promise<EventView[]> {
    return listEvents(this.#core, after, limit);
  }

  listWorkers(): WorkerView[] {
    return listWorkers(this.#core);
  }

  listPools(): PoolView[] {
    return listPools(this.#core);
  }

  status(): Promise<EngineStatus> {
    return engineStatus(this.#core);
  }

  /** Resolves at the job's next change, when `seconds` are over, when `signal` aborts, or when the engine closes. */
  changed(job: number, seconds: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (this.#core.state !== "open" || signal?.aborted) return resolve();
      const end = () => {
        cancel();
        unwatch();
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.#core.clock.after(seconds * 1000, end);
      const unwatch = this.#core.watchers.watch(job, end);
      signal?.addEventListener("abort", end);
    });
  }
}
