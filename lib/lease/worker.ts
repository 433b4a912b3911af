/** @module The worker: it registers, takes leases, runs their jobs, and reports, until something ends it. */

import { messageOf } from "../home/mod.ts";
import type { JobRunner } from "../job/mod.ts";
import type { Registration } from "./client.ts";
import { Acquirer } from "./worker_acquire.ts";
import { type Held, WorkerCore } from "./worker_core.ts";
import type { SpoolEntry } from "./spool.ts";
import { guardLoop } from "./worker_guard.ts";
import { heartbeatLoop } from "./worker_heartbeat.ts";
import { runLease } from "./worker_job.ts";
import { MessageReader } from "./worker_messages.ts";
import type { WorkerEnd, WorkerOptions } from "./worker_options.ts";
import { cleanUp, Outbox } from "./worker_outbox.ts";
import { Registrar } from "./worker_register.ts";
import { Backoff, type Mark, markNow, within } from "./worker_time.ts";
import type { Grant } from "./wire.ts";

const DRAIN_SECONDS = 30;
/** How long the last reports of a worker on its way out may take. */
const LAST_MS = 5_000;
/** How long it tries to say that it has ended. */
const GOODBYE_MS = 2_000;

/**
 * A worker of one server. It holds no timer, socket or file of its own: everything comes as {@linkcode WorkerOptions},
 * so it runs under a virtual clock as well.
 */
export class LeaseWorker {
  readonly #core: WorkerCore;
  readonly #outbox: Outbox;
  readonly #acquirer: Acquirer;
  readonly #messages: MessageReader;
  readonly #registrar: Registrar;
  #taken = false;
  #left = false;
  #leaving: "orphaned" | "stopped" | null = null;

  constructor(options: WorkerOptions) {
    const core = new WorkerCore(options);
    this.#core = core;
    this.#outbox = new Outbox(core);
    this.#acquirer = new Acquirer(core, (grant, asked) => this.#granted(grant, asked));
    this.#messages = new MessageReader(core);
    this.#registrar = new Registrar(core);
    core.onHeardAgain = () => this.#outbox.poke();
  }

  /** Leases that this worker owes the server something for, ascending. */
  get leases(): number[] {
    return [...this.#core.held.keys()].sort((a, b) => a - b);
  }

  /** Work until something ends it. Never rejects. An aborted `signal` is {@linkcode stop}. Call it once. */
  async run(signal?: AbortSignal): Promise<WorkerEnd> {
    const stop = () => this.stop();
    signal?.addEventListener("abort", stop);
    if (signal?.aborted === true) stop();
    const loops = this.#start();
    const end = await this.#ended();
    this.#core.over.abort();
    this.#outbox.close();
    await loops;
    await this.#goodbye(end);
    signal?.removeEventListener("abort", stop);
    this.#core.log.event("worker.ended", { worker: this.#core.worker, ...end });
    return end;
  }

  /** Tell the server that the name is free. One that does not hear it waits for the grace period. */
  async #goodbye(end: WorkerEnd): Promise<void> {
    const { client, clock, log, registration } = this.#core;
    const left = end.how === "drained" || end.how === "once" || end.how === "stopped";
    if (!left || registration === null || client.leave === undefined) return;
    try {
      const { signal } = new AbortController();
      await within(clock, GOODBYE_MS, signal, "leave", async (own) => await client.leave?.(own));
    } catch (error) {
      log.event("worker.left_untold", { error: messageOf(error) });
    }
  }

  /**
   * Take no more jobs, let those that run finish and report, then end. After `seconds` (default: the option's) it
   * stops; null: it waits as long as they take.
   */
  drain(seconds: number | null = this.#core.options.drainSeconds ?? DRAIN_SECONDS): void {
    const core = this.#core;
    core.drain();
    if (seconds === null) return;
    void core.clock.sleep(seconds * 1000, core.over.signal).then(() => {
      if (!core.over.signal.aborted) core.stop(`it drained for ${seconds} s`);
    });
  }

  /**
   * End, and leave the jobs that can be taken over to a later process of this worker, which must come before their
   * leases expire. Other jobs are stopped, and given back.
   */
  leave(): void {
    this.#core.leave("the worker makes room for its next process");
  }

  /** Stop the jobs, which still report, and end. Reports that are not accepted at once stay in the spool. */
  stop(): void {
    this.#core.stop("the worker was stopped");
  }

  /** Register, then run every loop; resolves when all have ended. */
  async #start(): Promise<void> {
    const core = this.#core;
    const guard = this.#keepUp("guard", () => guardLoop(core));
    await this.#tidy((runner) => runner.stopLeft?.());
    const registration = await this.#registrar.register();
    if (registration !== null) {
      this.#messages.seek(registration.cursor);
      await this.#resume(registration);
      // A lease that is granted from now on is held before its job begins.
      void this.#salvage().then(() =>
        this.#tidy((runner) => runner.removeLeft?.((lease) => core.held.has(lease)))
      );
      await Promise.all([
        this.#keepUp("heartbeat", () => heartbeatLoop(core)),
        this.#keepUp("acquire", () => this.#acquirer.loop(), () => core.mode === "working"),
        this.#keepUp("messages", () => this.#messages.loop()),
        this.#keepUp("register", () =>
          this.#registrar.again((again) => {
            this.#messages.seek(again.cursor);
            this.#recover(again.held);
            core.mustBeat.set();
          })),
      ]);
    }
    await guard;
  }

  /** What earlier processes left of leases that are lost is reported all the same: the server keeps it as evidence. */
  async #salvage(): Promise<void> {
    const core = this.#core;
    const { signal } = core.ending;
    await this.#tidy(async (runner) => {
      for await (
        const { lease, job, report } of runner.salvage?.((id) => core.held.has(id), signal) ?? []
      ) {
        if (core.over.signal.aborted || core.held.has(lease)) return;
        this.#hold({ lease, job_cid: null }, "spooled", markNow(core.clock));
        this.#outbox.add({ lease, requestId: core.ids.uuid(), outcome: { report }, job });
      }
    });
  }

  /** What earlier processes left is no reason not to work. */
  async #tidy(what: (runner: JobRunner) => Promise<void> | undefined): Promise<void> {
    const { options, log } = this.#core;
    for (const runner of options.runners) {
      try {
        await what(runner);
      } catch (error) {
        log.event("worker.not_tidied", { kind: runner.kind, error: messageOf(error) });
      }
    }
  }

  /** Run `loop` again whenever it returns or fails, until the worker is over: a fault in one stops no other. */
  async #keepUp(
    name: string,
    loop: () => Promise<void>,
    wanted: () => boolean = () => true,
  ): Promise<void> {
    const core = this.#core;
    const backoff = new Backoff(core.ids);
    while (!core.over.signal.aborted && wanted()) {
      try {
        await loop();
      } catch (error) {
        core.log.event("worker.loop_failed", { loop: name, error });
        await core.clock.sleep(backoff.next(), core.over.signal);
      }
    }
  }

  /** Take up what an earlier process of this worker left: finished work first, then jobs that may still run. */
  async #resume(registration: Registration): Promise<void> {
    const core = this.#core;
    for (const entry of await this.#finished()) {
      this.#hold({ lease: entry.lease, job_cid: null }, "spooled", markNow(core.clock));
      this.#outbox.add(entry, true);
    }
    if (!core.over.signal.aborted) this.#recover(registration.held);
  }

  /** What the spool holds, once it can be read: without it, what is finished would be given back as lost. */
  async #finished(): Promise<SpoolEntry[]> {
    const core = this.#core;
    const backoff = new Backoff(core.ids);
    while (!core.over.signal.aborted) {
      try {
        return await core.options.spool.load(core.worker);
      } catch (error) {
        core.log.event("spool.failed", { error: messageOf(error) });
        await core.clock.sleep(backoff.next(), core.over.signal);
      }
    }
    return [];
  }

  /** Recover the leases that the server says this worker holds, and that it knows nothing of. */
  #recover(grants: readonly Grant[]): void {
    const asked = this.#core.joined;
    for (const grant of grants) {
      if (this.#core.held.has(grant.lease)) continue;
      this.#took();
      void this.#perform(this.#hold(grant, "running", asked), grant, "recover");
    }
  }

  /** A lease was granted. */
  #granted(grant: Grant, asked: Mark): void {
    const core = this.#core;
    if (core.held.has(grant.lease)) return;
    const held = this.#hold(grant, "running", asked);
    core.log.event("lease.acquired", { lease: grant.lease });
    if (core.mode !== "working") {
      core.stopJob(held, "this worker takes no more jobs");
    }
    this.#took();
    void this.#perform(held, grant, "run");
  }

  /** A lease counts as taken: a worker of one lease takes no more. */
  #took(): void {
    this.#taken = true;
    if (this.#core.options.once === true) this.#core.drain();
  }

  #hold(
    grant: { lease: number; job_cid: Held["jobCid"] },
    phase: Held["phase"],
    renewed: Mark,
  ): Held {
    const held: Held = {
      lease: grant.lease,
      jobCid: grant.job_cid,
      sessionId: null,
      runner: null,
      phase,
      renewed,
      stopper: new AbortController(),
      stale: false,
      revoked: false,
    };
    this.#core.held.set(grant.lease, held);
    return held;
  }

  /** See the job to its outcome, and hand that on. */
  async #perform(held: Held, grant: Grant, how: "run" | "recover"): Promise<void> {
    const core = this.#core;
    const { outcome, job } = await runLease(core, held, grant, how);
    held.phase = "spooled";
    if ("report" in outcome) core.host.served();
    if ("left" in outcome) {
      core.log.event("lease.left", { lease: held.lease });
      core.held.delete(held.lease);
      core.changed.set();
      return;
    }
    const evidence = "report" in outcome && held.runner?.keepsStale === true;
    if ((held.stale && !evidence) || "stale" in outcome) {
      core.log.event("lease.dropped", { lease: held.lease });
      await cleanUp(core, job, held.lease);
      core.held.delete(held.lease);
      core.mayAcquire.set();
    } else {
      this.#outbox.add({ lease: held.lease, requestId: core.ids.uuid(), outcome, job });
    }
    core.changed.set();
  }

  /** How the worker ended, once it has. */
  async #ended(): Promise<WorkerEnd> {
    const core = this.#core;
    while (true) {
      const end = this.#judge();
      if (end !== null) return end;
      // Once it leaves, time makes no difference any more: the end of its last tries does.
      const ms = this.#leaving === null ? this.#orphanMs() : null;
      await core.changed.wait(core.clock, ms, core.over.signal);
    }
  }

  #judge(): WorkerEnd | null {
    const core = this.#core;
    if (core.running > 0) return null;
    if (core.refusal !== null) return { how: "refused", error: core.refusal };
    const idle = this.#outbox.empty && !this.#acquirer.busy;
    if (core.mode === "stopping") return this.#leave("stopped", idle);
    // An orphan drains as well: it ends as what it is.
    if (this.#leaving !== null) return this.#leave(this.#leaving, idle);
    if (core.mode === "draining" && idle && core.held.size === 0) {
      return { how: this.#taken && core.options.once === true ? "once" : "drained" };
    }
    const left = this.#orphanMs();
    return left !== null && left <= 0 ? this.#leave("orphaned", idle) : null;
  }

  /** Try to report once more, for a few seconds, then end. */
  #leave(how: "orphaned" | "stopped", idle: boolean): WorkerEnd | null {
    const core = this.#core;
    if (this.#leaving === null) {
      core.drain();
      this.#outbox.lastTry();
      void core.clock.sleep(LAST_MS, core.over.signal).then(() => {
        this.#left = true;
        core.changed.set();
      });
    }
    this.#leaving = how;
    return idle && this.#outbox.empty || this.#left ? { how } : null;
  }

  /** Milliseconds until this worker counts as orphaned, or null when it never does. */
  #orphanMs(): number | null {
    const core = this.#core;
    const limit = core.options.orphanExitSeconds ?? null;
    if (limit === null || core.running > 0) return null;
    // Of a server that is well an idle worker may hear nothing from one heartbeat to the next.
    const seconds = Math.max(limit, core.registration === null ? 0 : 2 * core.timing.renew);
    // By the monotonic clock: a machine that was suspended hears its server first.
    return seconds * 1000 - (core.clock.monotonic() - core.heard.monotonic);
  }
}
