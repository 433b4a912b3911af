/**
 * @module A worker that speaks worker protocol 7 as piloop 0.3.1 does: it does not say which process it is, does one thing
 * after another, lets what it finished wait unrenewed, and leaves at any refusal that it does not know.
 */

import type { Cas } from "../../lib/cas/mod.ts";
import { messageOf, SubletError } from "../../lib/home/mod.ts";
import type { JobControl, Outcome } from "../../lib/job/mod.ts";
import type { Spool, SpoolEntry } from "../../lib/lease/spool.ts";
import type { WorkerEnd } from "../../lib/lease/worker_options.ts";
import { Wake } from "../../lib/lease/worker_time.ts";
import type { Grant, HostSample, Message, Timing } from "../../lib/lease/wire.ts";
import type { HttpClient } from "../../lib/net/mod.ts";
import type { Process } from "./machine.ts";
import { Dismissed, PiloopCalls, Refused } from "./piloop_calls.ts";
import type { SimRunner } from "./runner.ts";

/** What one is made of. */
export interface PiloopOptions {
  readonly http: HttpClient;
  readonly process: Process;
  readonly cas: Cas;
  readonly runners: readonly SimRunner[];
  readonly spool: Spool;
  readonly pool: string;
  readonly sample: () => HostSample;
  readonly prompt: (lease: number, text: string) => Promise<string | null>;
  readonly onRegistered: () => void;
}

interface Registered {
  readonly worker: string;
  readonly timing: Timing;
  readonly held: readonly Grant[];
  readonly cursor: number;
}

/** A worker of piloop's. */
export class PiloopWorker {
  readonly #jobs = new Map<number, AbortController>();
  readonly #over = new AbortController();
  readonly #wake = new Wake();
  readonly #calls: PiloopCalls;
  readonly #outcomes = new Map<number, string | null>();
  readonly #unanswered = new Set<number>();
  #registered: Registered | null = null;
  #spooled: readonly number[] = [];
  #after = 0;
  #heard: number;
  #draining = false;
  #dismissed: Dismissed | null = null;

  constructor(private readonly options: PiloopOptions) {
    this.#calls = new PiloopCalls(options.http, options.process.clock, this.#over.signal);
    this.#heard = options.process.clock.monotonic();
  }

  /** Leases that it runs, or whose report it keeps. */
  get leases(): number[] {
    return [...new Set([...this.#jobs.keys(), ...this.#spooled])];
  }

  stop(): void {
    this.#calls.stop();
    for (const stopper of this.#jobs.values()) stopper.abort();
    this.#wake.set();
  }

  drain(_seconds?: number): void {
    this.#draining = true;
    this.#wake.set();
  }

  async run(): Promise<WorkerEnd> {
    const { clock } = this.options.process;
    while (true) {
      try {
        if (this.#registered === null) await this.#join();
        else await this.#turn();
      } catch (error) {
        if (error instanceof Dismissed) {
          this.#dismissed = error;
          this.stop();
        }
      }
      const end = await this.#end();
      if (end !== null) {
        this.#over.abort();
        return end;
      }
      await this.#wake.wait(clock, this.#timing.renew * 1000, this.#over.signal);
    }
  }

  get #timing(): Timing {
    return this.#registered?.timing ?? { renew: 10, grace: 50, toleration: 300 };
  }

  async #end(): Promise<WorkerEnd | null> {
    if (this.#jobs.size > 0) return null;
    if (this.#dismissed !== null) {
      return { how: "refused", error: new SubletError("dismissed", this.#dismissed.message) };
    }
    if (this.#calls.stopping) return { how: "stopped" };
    if (!this.#draining) return null;
    return (await this.#entries().catch(() => null))?.length === 0 ? { how: "drained" } : null;
  }

  async #join(): Promise<void> {
    const { pool, sample, cas, process } = this.options;
    const probe = await cas.put(new TextEncoder().encode(process.ids.uuid()));
    const body = {
      protocol: 7,
      version: "0.3.1",
      pool,
      runners: ["process"],
      sample: sample(),
      cas_probe: probe,
    };
    const { value, sent } = await this.#calls.call("register", body);
    if (this.#calls.stopping) return;
    const registered = value as Registered;
    this.#registered = registered;
    this.#calls.giveUpAfter(registered.timing);
    this.#after = registered.cursor;
    this.#heard = sent;
    this.options.onRegistered();
    const kept = new Set((await this.#entries()).map(({ lease }) => lease));
    for (const grant of registered.held) {
      if (!kept.has(grant.lease)) void this.#perform(grant, "recover");
    }
    void this.#guard();
    void this.#listen();
    this.#wake.set();
  }

  /** One thing after another: a heartbeat, what is in the spool, and leases until there is none. */
  async #turn(): Promise<void> {
    const sample = this.options.sample();
    const leases = Object.fromEntries([...this.#jobs.keys()].map((lease) => [lease, null]));
    const { value, sent } = await this.#calls.call("heartbeat", { leases, sample });
    this.#heard = Math.max(this.#heard, sent);
    for (const [lease, answer] of Object.entries(value as Record<string, string>)) {
      if (answer !== "renewed") this.#jobs.get(Number(lease))?.abort();
    }
    for (const entry of await this.#entries()) {
      if (!this.#jobs.has(entry.lease)) await this.#send(entry);
    }
    while (!this.#draining && !this.#calls.stopping) {
      const body = { request_id: this.options.process.ids.uuid(), sample };
      const { value: answer } = await this.#calls.call("acquire", body);
      if (answer === "draining") this.drain();
      if (typeof answer === "string") return;
      void this.#perform(answer as Grant, "run");
    }
  }

  async #entries(): Promise<SpoolEntry[]> {
    const entries = await this.options.spool.load(this.#registered?.worker ?? "");
    this.#spooled = entries.map(({ lease }) => lease);
    return entries;
  }

  /** Jobs stop in time whatever hangs. By the monotonic clock alone: a suspend hides its time. */
  async #guard(): Promise<void> {
    const { clock } = this.options.process;
    while (!this.#over.signal.aborted) {
      const { renew, toleration } = this.#timing;
      const left = this.#heard + (toleration - 2 * renew) * 1000 - clock.monotonic();
      if (left <= 0) { for (const stopper of this.#jobs.values()) stopper.abort(); }
      await clock.sleep(left > 0 ? left : renew * 1000, this.#over.signal);
    }
  }

  /** See a job to its end, keep what it came to, and send it. */
  async #perform(grant: Grant, how: "run" | "recover"): Promise<void> {
    const { lease } = grant;
    if (this.#jobs.has(lease)) return;
    const stopper = new AbortController();
    this.#jobs.set(lease, stopper);
    if (this.#calls.stopping) stopper.abort();
    try {
      await this.#finish(lease, await this.#outcome(grant, how, stopper));
    } catch (error) {
      if (error instanceof Dismissed) {
        this.#dismissed = error;
        this.stop();
      }
    } finally {
      this.#jobs.delete(lease);
      this.#wake.set();
    }
  }

  async #outcome(
    grant: Grant,
    how: "run" | "recover",
    stopper: AbortController,
  ): Promise<Outcome> {
    try {
      const bytes = await this.options.cas.get(grant.job_cid);
      if (bytes === null) return { lost: "the store lacks the job" };
      const job = JSON.parse(new TextDecoder().decode(bytes));
      const runner = this.options.runners.find(({ kind }) => kind === job.kind);
      if (runner === undefined) return { lost: "nothing here runs it" };
      const control = this.#control(grant.lease, stopper);
      if (how === "recover") {
        return await runner.recover(job, { handle: grant.handle }, control);
      }
      if (stopper.signal.aborted) return { lost: "not started" };
      return await runner.run(job, control);
    } catch (error) {
      return { lost: messageOf(error) };
    }
  }

  #control(lease: number, stopper: AbortController): JobControl {
    return {
      lease,
      stop: stopper.signal,
      started: async (handle) => {
        try {
          // A kill waits for no call.
          const stopped = new Promise<void>((resolve) =>
            stopper.signal.addEventListener("abort", () => resolve())
          );
          const told = this.#calls.call("started", { lease, handle, session_id: null });
          await Promise.race([told, stopped]);
        } catch (error) {
          if (error instanceof Refused) return false;
          stopper.abort();
        }
        return true;
      },
    } as JobControl;
  }

  async #finish(lease: number, outcome: Outcome): Promise<void> {
    if ("lost" in outcome) {
      await this.#calls.call("lost", { lease, reason: outcome.lost }).catch(unlessDismissed);
    }
    if (!("report" in outcome)) return;
    const requestId = this.options.process.ids.uuid();
    const entry = { lease, requestId, outcome, job: null };
    await this.options.spool.keep(this.#registered?.worker ?? "", entry).catch(() => {});
    await this.#send(entry);
  }

  /** Send a report; it stays in the spool while nobody answers. */
  async #send({ lease, requestId, outcome }: SpoolEntry): Promise<void> {
    if (!("report" in outcome)) return;
    try {
      const body = { lease, request_id: requestId, report: outcome.report };
      await this.#calls.call("report", body);
    } catch (error) {
      if (error instanceof Dismissed || !(error instanceof Refused)) throw error;
      if (error.code === "missing_blobs") {
        await this.#calls.call("lost", { lease, reason: error.message });
      }
    }
    await this.options.spool.drop(this.#registered?.worker ?? "", lease);
    this.#spooled = this.#spooled.filter((each) => each !== lease);
  }

  async #listen(): Promise<void> {
    const wait = this.#timing.renew;
    while (!this.#over.signal.aborted && !this.#calls.stopping) {
      try {
        const { value } = await this.#calls.call("messages", { after: this.#after, wait }, wait);
        const page = (value ?? []) as readonly Message[];
        for (const message of page) await this.#take(message);
        const highest = Math.max(this.#after, ...page.map(({ id }) => id));
        this.#after = Math.min(highest, ...[...this.#unanswered].map((id) => id - 1));
      } catch (error) {
        if (error instanceof Dismissed) {
          this.#dismissed = error;
          return this.stop();
        }
      }
    }
  }

  async #take(message: Message): Promise<void> {
    if (message.kind === "work") return this.#wake.set();
    if (message.kind === "drain") return this.drain();
    if (message.kind === "revoke") return this.#jobs.get(message.lease)?.abort();
    const { id, lease, prompt } = message;
    let outcome = this.#outcomes.get(id);
    if (outcome === undefined) {
      outcome = this.#jobs.has(lease)
        ? await this.options.prompt(lease, prompt.text)
        : "the agent does not run on this worker";
      this.#outcomes.set(id, outcome);
    }
    this.#unanswered.add(id);
    await this.#calls.call("queued", { message: id, error: outcome }).catch((error) => {
      if (!(error instanceof Refused)) throw error;
    });
    this.#unanswered.delete(id);
  }
}

function unlessDismissed(error: unknown): void {
  if (error instanceof Dismissed) throw error;
}
