/** @module What the loops of a worker share: the leases it holds, its calls, and how far it is on its way out. */

import { type Clock, type Ids, isError, type Log, messageOf, SubletError } from "../home/mod.ts";
import type { Cid } from "../cas/mod.ts";
import type { JobRunner } from "../job/mod.ts";
import type { LeaseClient, Registration } from "./client.ts";
import { UnexplainedStatus } from "./http_client_refusal.ts";
import { HostWatch } from "./worker_host.ts";
import type { WorkerOptions } from "./worker_options.ts";
import { Gate, type Mark, markNow, since, Wake, within } from "./worker_time.ts";
import type { HostSample, Timing } from "./wire.ts";

/** A lease that this worker owes the server something for. */
export interface Held {
  readonly lease: number;
  /** Null for what an earlier process finished. */
  readonly jobCid: Cid | null;
  sessionId: string | null;
  /** Null until its job was read. */
  runner: JobRunner | null;
  /** Spooled: its job ended, and its report is not accepted yet. */
  phase: "running" | "spooled";
  /** When the last answered heartbeat (or acquire) that renewed it was sent. */
  renewed: Mark;
  readonly stopper: AbortController;
  /** The server gave the job away: it stops, and reports nothing. */
  stale: boolean;
  /** The server wants the job stopped: what it came to is the answer. */
  revoked: boolean;
}

/** The codes that end a worker. */
const FATAL = [
  "dismissed",
  "unauthenticated",
  "permission_denied",
  "reserved",
  "protocol",
  "other_cas",
  "superseded",
] as const;
/** How often a worker whose server does not answer says so. */
const UNREACHABLE_EVERY_MS = 60_000;
/** A host that does not say how it is within this time is taken to be as it was. */
const SAMPLE_MS = 2_000;

/** Whether the server refused this worker for good. */
export function endsWorker(error: unknown): error is SubletError {
  return isError(error, ...FATAL);
}

/** Whether nobody knows if the call happened: it may be tried again with the same arguments. */
export function isUnanswered(error: unknown): boolean {
  return !(error instanceof SubletError) || error instanceof UnexplainedStatus ||
    isError(error, "unreachable", "unavailable", "busy", "cancelled");
}

/** The shared part of a worker. Its loops live in files of their own. */
export class WorkerCore {
  readonly held = new Map<number, Held>();
  readonly client: LeaseClient;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  /** Aborts when the worker has ended: every loop and call ends with it. */
  readonly over = new AbortController();
  readonly host: HostWatch;
  /** Shut while the server does not know this worker. */
  readonly registered = new Gate();
  readonly mustRegister = new Wake();
  readonly mayAcquire = new Wake();
  readonly mustBeat = new Wake();
  /** Aborts when the worker ends and leaves jobs that can be taken over to a later process. */
  readonly leaving = new AbortController();
  /** Aborts when the worker is about to end. */
  readonly ending = new AbortController();
  /** The server knew no call that takes what jobs write: none is made before this, milliseconds monotonic. */
  savesFrom = -Infinity;
  /** Something changed that may end the worker. */
  readonly changed = new Wake();
  /** Heard of the server after it was silent: whoever waits to try again may do so now. */
  onHeardAgain: () => void = () => {};
  registration: Registration | null = null;
  refusal: SubletError | null = null;
  /** When the last registration that was answered was sent: it renewed what it says is held. */
  joined: Mark;
  /** When the server last answered anything. */
  heard: Mark;
  #mode: "working" | "draining" | "stopping" = "working";
  /** Calls that get no answer: since when, and when that was last logged. */
  readonly #outages = new Map<string, { began: Mark; said: Mark | null }>();
  #worker: string | null = null;
  #sample: HostSample | null = null;

  constructor(readonly options: WorkerOptions) {
    this.client = options.client;
    this.clock = options.clock;
    this.ids = options.ids;
    this.log = options.log;
    this.joined = this.heard = markNow(this.clock);
    const guard = options.host ?? { reserve: 0 };
    this.host = new HostWatch(guard, this.clock, this.log, () => this.sample());
  }

  /** Working: takes jobs. Draining: takes none, finishes what it has. Stopping: stops what it has. */
  get mode(): "working" | "draining" | "stopping" {
    return this.#mode;
  }

  /** This worker's name: its token's, as the server said at the first registration. */
  get worker(): string {
    return this.#worker ?? "";
  }

  get timing(): Timing {
    return this.registration?.timing ?? { renew: 10, grace: 50, toleration: 300 };
  }

  get running(): number {
    let count = 0;
    for (const held of this.held.values()) if (held.phase === "running") count++;
    return count;
  }

  /** The server knows this worker now; the call that made it so was sent at `asked`. */
  join(registration: Registration, asked: Mark): void {
    this.joined = asked;
    this.#worker ??= registration.worker;
    this.registration = registration;
    this.registered.open();
  }

  /** Take no more jobs. `why` is for the log. */
  drain(why?: string): void {
    if (this.#mode !== "working") return;
    this.#mode = "draining";
    const leases = [...this.held.keys()];
    this.log.event("worker.draining", {
      worker: this.worker,
      leases,
      ...(why === undefined ? {} : { why }),
    });
    this.mayAcquire.set();
    this.changed.set();
  }

  /** The server gives it no more jobs: an operator drained it, maybe before it was started, or its pool is gone. */
  drainByServer(): void {
    this.drain(
      "the server lets this worker go: `sublet worker list` there says why, and " +
        `\`sublet worker resume ${this.worker}\` ends a drain`,
    );
  }

  /** Take no more jobs, and stop those that run. */
  stop(why: string, which: (held: Held) => boolean = () => true): void {
    if (this.#mode !== "stopping") {
      this.#mode = "stopping";
      this.ending.abort(new SubletError("cancelled", why));
      this.log.event("worker.stopping", { worker: this.worker, why });
    }
    for (const held of this.held.values()) if (which(held)) this.stopJob(held, why);
    this.mayAcquire.set();
    this.changed.set();
  }

  /** Take no more jobs, leave those that can be taken over to a later process, and stop the others. Repeatable. */
  leave(why: string): void {
    this.leaving.abort(new SubletError("cancelled", why));
    this.stop(why, (held) => held.runner?.prompt === undefined);
  }

  /** Stop the job of `held`; it still reports. Repeatable. */
  stopJob(held: Held, why: string): void {
    if (held.phase !== "running" || held.stopper.signal.aborted) return;
    this.log.event("lease.stopping", { lease: held.lease, why });
    held.stopper.abort(new SubletError("cancelled", why));
  }

  /** The server wants the job of `held` stopped. */
  revoke(held: Held): void {
    held.revoked = true;
    this.stopJob(held, "the server revoked the lease");
  }

  /** Stop the jobs whose leases the server may soon give away, since none of their heartbeats was answered. */
  guard(): void {
    const { renew, toleration } = this.timing;
    const limit = (toleration - 2 * renew) * 1000;
    for (const held of this.held.values()) {
      if (held.phase !== "running" || held.stopper.signal.aborted) continue;
      const silent = since(this.clock, held.renewed);
      if (silent < limit) continue;
      this.stopJob(held, `the server was silent for ${Math.round(silent / 1000)} s`);
    }
  }

  /** One call of the server: its answer, or its error after it was judged. Gives up after `seconds`. */
  async call<T>(
    what: string,
    seconds: number,
    make: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal = this.over.signal,
  ): Promise<T> {
    // A machine that was suspended stops its jobs before it does anything else.
    this.guard();
    try {
      const answer = await within(this.clock, seconds * 1000, signal, what, make);
      this.#answered(what);
      return answer;
    } catch (error) {
      this.#judge(what, error);
      throw error;
    } finally {
      this.guard();
    }
  }

  /** What the host has now, or had when it last said so. */
  async sample(): Promise<HostSample> {
    try {
      const read = () => this.options.sampleHost();
      this.#sample = await within(
        this.clock,
        SAMPLE_MS,
        this.over.signal,
        "the host's sample",
        read,
      );
    } catch (error) {
      if (!this.over.signal.aborted) {
        this.log.event("worker.sample_failed", { error: messageOf(error) });
      }
      if (this.#sample === null) throw error;
    }
    return this.#sample;
  }

  #judge(what: string, error: unknown): void {
    if (isUnanswered(error)) {
      if (!this.over.signal.aborted) this.#unanswered(what, error);
      return;
    }
    this.#answered(what);
    if (isError(error, "unknown_worker")) {
      this.registered.shut();
      this.mustRegister.set();
    } else if (endsWorker(error)) {
      this.refuse(error);
    }
  }

  /** The server refused this worker for good: stop its jobs, keep their reports, and end. */
  refuse(error: SubletError): void {
    if (this.refusal === null) {
      this.refusal = error;
      this.log.event("worker.refused", { worker: this.worker, code: error.code, error });
    }
    this.stop("the server refused this worker");
  }

  #answered(what: string): void {
    this.heard = markNow(this.clock);
    const outage = this.#outages.get(what);
    if (outage === undefined) return;
    this.#outages.delete(what);
    const seconds = Math.round(since(this.clock, outage.began) / 1000);
    this.log.event("worker.reachable", { call: what, seconds });
    this.onHeardAgain();
  }

  #unanswered(what: string, error: unknown): void {
    const now = markNow(this.clock);
    const outage = this.#outages.get(what) ?? { began: now, said: null };
    this.#outages.set(what, outage);
    if (outage.said !== null && since(this.clock, outage.said) < UNREACHABLE_EVERY_MS) return;
    outage.said = now;
    const seconds = Math.round(since(this.clock, outage.began) / 1000);
    this.log.event("worker.unreachable", { call: what, seconds, error: messageOf(error) });
  }
}
