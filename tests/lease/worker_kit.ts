/** @module A server and jobs that do as a test says, for the worker's loops under a virtual clock. */

import { type Cid, openMemory } from "../../lib/cas/mod.ts";
import { type Ids, type Log, SubletError } from "../../lib/home/mod.ts";
import type {
  JobControl,
  JobRunner,
  Outcome,
  Prompt,
  Report,
  Salvage,
  SavedPart,
} from "../../lib/job/mod.ts";
import type { LeaseClient, Registration, WorkerInfo } from "../../lib/lease/client.ts";
import { MemorySpool } from "../../lib/lease/spool_memory.ts";
import type { WorkerEnd, WorkerOptions } from "../../lib/lease/worker_options.ts";
import { LeaseWorker } from "../../lib/lease/worker.ts";
import type { Answer, Grant, HostSample, Message, NoLease } from "../../lib/lease/wire.ts";
import { settle, VirtualClock } from "../kit/virtual_clock.ts";

export const TIMING = { renew: 10, grace: 50, toleration: 300 };

/** A promise that a test settles. */
export function hanging<T>(): Promise<T> {
  return new Promise<T>(() => {});
}

export function unreachable(): SubletError {
  return new SubletError("unreachable", "nobody answers");
}

/** One call that the server got. */
export interface Call {
  readonly at: number;
  readonly call: string;
  readonly args: unknown;
}

type Handler = (args: unknown) => unknown;

/** A server of one worker: it answers as its fields say, or as a handler of {@linkcode on} does instead. */
export class FakeServer implements LeaseClient {
  readonly calls: Call[] = [];
  readonly queue: Grant[] = [];
  readonly mail: Message[] = [];
  held: Grant[] = [];
  cursor = 0;
  noLease: NoLease = "nothing";
  /** Heartbeat answers other than renewed, by lease. */
  readonly answers = new Map<number, Answer>();
  /** A handler here answers, throws or hangs in the place of the server. */
  on: Partial<Record<string, Handler>> = {};
  /** Nothing answers. */
  down = false;
  #wakePoll: () => void = () => {};

  constructor(private readonly clock: VirtualClock) {}

  /** Arguments of every call of `name`, in order. */
  of<T = Record<string, unknown>>(name: string): T[] {
    return this.calls.filter(({ call }) => call === name).map(({ args }) => args as T);
  }

  /** Deliver messages to the open long-poll. */
  post(...messages: Message[]): void {
    this.mail.push(...messages);
    this.#wakePoll();
  }

  async #call<T>(call: string, args: unknown, normal: () => T | Promise<T>): Promise<T> {
    this.calls.push({ at: this.clock.monotonic(), call, args });
    if (this.down) throw unreachable();
    const handler = this.on[call];
    return await (handler === undefined ? normal() : handler(args)) as T;
  }

  register(info: WorkerInfo): Promise<Registration> {
    return this.#call("register", info, () => ({
      worker: "desk",
      timing: TIMING,
      held: this.held,
      cursor: this.cursor,
    }));
  }

  acquire(requestId: string, sample: HostSample): Promise<Grant | NoLease> {
    return this.#call("acquire", { requestId, sample }, () => this.queue.shift() ?? this.noLease);
  }

  started(lease: number, handle: unknown, sessionId: string | null): Promise<void> {
    return this.#call("started", { lease, handle, sessionId }, () => {});
  }

  heartbeat(leases: ReadonlyMap<number, string | null>): Promise<Map<number, Answer>> {
    return this.#call(
      "heartbeat",
      Object.fromEntries(leases),
      () => new Map([...leases.keys()].map((id) => [id, this.answers.get(id) ?? "renewed"])),
    );
  }

  report(lease: number, requestId: string, report: Report): Promise<void> {
    return this.#call("report", { lease, requestId, report }, () => {});
  }

  lost(
    lease: number,
    reason: string,
    _signal?: AbortSignal,
    hostFault?: boolean,
  ): Promise<void> {
    const args = { lease, reason, ...(hostFault === true ? { hostFault } : {}) };
    return this.#call("lost", args, () => {});
  }

  messages(after: number, wait: number, signal?: AbortSignal): Promise<readonly Message[]> {
    return this.#call("messages", { after, wait }, async () => {
      const due = () => this.mail.filter((message) => message.id > after);
      if (due().length === 0) {
        const arrived = new AbortController();
        this.#wakePoll = () => arrived.abort();
        signal?.addEventListener("abort", () => arrived.abort());
        await this.clock.sleep(wait * 1000, arrived.signal);
      }
      return due();
    });
  }

  queued(message: number, error: string | null): Promise<void> {
    return this.#call("queued", { message, error }, () => {});
  }

  secrets(lease: number): Promise<ReadonlyMap<string, string>> {
    return this.#call("secrets", { lease }, () => new Map([["KEY", "value"]]));
  }

  saved(part: SavedPart): Promise<void> {
    return this.#call("saved", part, () => {});
  }

  send(repo: number, revisions: readonly string[], have: readonly string[]): Promise<Cid[] | null> {
    return this.#call("send", { repo, revisions, have }, () => []);
  }
}

/** A job that a runner was given. */
export interface Running {
  readonly lease: number;
  readonly control: JobControl;
  readonly how: "run" | "recover";
  readonly finish: (outcome: Outcome) => void;
}

/** Runs evaluations that end when a test says so, or report that they were stopped. */
export class FakeRunner implements JobRunner {
  readonly kind = "evaluation";
  readonly jobs: Running[] = [];
  readonly cleaned: number[] = [];
  /** A stopped job goes on. */
  deaf = false;
  stoppedReport: Outcome = reportOf("stopped");

  run(_job: unknown, control: JobControl): Promise<Outcome> {
    return this.#begin(control, "run");
  }

  recover(_job: unknown, _held: unknown, control: JobControl): Promise<Outcome> {
    return this.#begin(control, "recover");
  }

  cleanup(_job: unknown, lease: number): Promise<void> {
    this.cleaned.push(lease);
    return Promise.resolve();
  }

  job(lease: number): Running {
    const found = this.jobs.find((job) => job.lease === lease);
    if (found === undefined) throw new Error(`no job of lease ${lease} runs`);
    return found;
  }

  /** End the job of `lease` with a report. */
  finish(lease: number): void {
    this.job(lease).finish(reportOf("done"));
  }

  #begin(control: JobControl, how: "run" | "recover"): Promise<Outcome> {
    return new Promise((resolve) => {
      this.jobs.push({ lease: control.lease, control, how, finish: resolve });
      const stopped = () => this.deaf || resolve(this.stoppedReport);
      if (control.stop.aborted) stopped();
      control.stop.addEventListener("abort", stopped);
    });
  }
}

/** Runs jobs that take prompts, and that a later process can take over. */
export class FakeAgents extends FakeRunner {
  readonly prompts: (Prompt & { readonly lease: number })[] = [];
  readonly keepsStale = true;
  /** What an earlier process left of lost leases. */
  left: Salvage[] = [];

  override run(job: unknown, control: JobControl): Promise<Outcome> {
    return leaving(super.run(job, control), control);
  }

  override recover(job: unknown, held: unknown, control: JobControl): Promise<Outcome> {
    return leaving(super.recover(job, held, control), control);
  }

  prompt(lease: number, prompt: Prompt): Promise<string | null> {
    this.prompts.push({ lease, ...prompt });
    return Promise.resolve(null);
  }

  async *salvage(isHeld: (lease: number) => boolean): AsyncIterable<Salvage> {
    for (const each of this.left) if (!isHeld(each.lease)) yield await Promise.resolve(each);
  }
}

function leaving(running: Promise<Outcome>, { leave }: JobControl): Promise<Outcome> {
  return Promise.race([
    running,
    new Promise<Outcome>((resolve) =>
      leave?.addEventListener("abort", () => resolve({ left: true }))
    ),
  ]);
}

export function reportOf(what: string): { report: Report } {
  return { report: { kind: "evaluation", what } };
}

/** A worker, its server and its machine, under one clock. */
export class Bench {
  readonly clock = new VirtualClock();
  readonly server = new FakeServer(this.clock);
  readonly runner = new FakeRunner();
  readonly spool = new MemorySpool();
  readonly events: { event: string; fields: Record<string, unknown> }[] = [];
  readonly log: Log = { event: (event, fields = {}) => void this.events.push({ event, fields }) };
  #ids = 0;
  readonly ids: Ids = {
    uuid: () => `id-${++this.#ids}`,
    random: () => 0,
  };
  readonly cas = openMemory();

  /** A grant of `lease`, whose job is in the CAS. */
  async grant(lease: number): Promise<Grant> {
    const job = new TextEncoder().encode(JSON.stringify({ kind: "evaluation", evaluation: lease }));
    return { lease, job_cid: await this.cas.put(job), handle: null, started_at: null };
  }

  /** Start a worker; `ended` tells how it ended. */
  async start(options: Partial<WorkerOptions> = {}): Promise<Started> {
    const worker = new LeaseWorker({
      client: this.server,
      clock: this.clock,
      ids: this.ids,
      log: this.log,
      cas: this.cas,
      sampleHost: () =>
        Promise.resolve({
          at: new Date(this.clock.now()).toISOString(),
          cpus: 2,
          load1: 0,
          memory_available: 1e9,
          disk_free: 1e9,
        }),
      runners: [this.runner],
      spool: this.spool,
      incarnation: { id: "this", succeeds: [], registered: () => Promise.resolve() },
      pool: "lab",
      version: "0.0.0",
      ...options,
    });
    const started = new Started(worker);
    await settle();
    return started;
  }

  logged(event: string): Record<string, unknown>[] {
    return this.events.filter((each) => each.event === event).map(({ fields }) => fields);
  }
}

/** A worker that runs. Disposing of it stops it and waits. */
export class Started {
  end: WorkerEnd | null = null;
  readonly #ended: Promise<void>;

  constructor(readonly worker: LeaseWorker) {
    this.#ended = worker.run().then((end) => void (this.end = end));
  }

  /** Stop it and wait for its end, however long its last tries take. */
  async close(bench: Bench): Promise<void> {
    bench.runner.deaf = false;
    this.worker.stop();
    for (const job of bench.runner.jobs) job.finish(reportOf("closed"));
    await bench.clock.advance(10_000);
    await this.#ended;
  }
}
