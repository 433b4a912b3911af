/** @module A lease engine with a fake kind of job, on a virtual clock, and workers that call it directly. */

import * as z from "zod";
import { type Cas, type Cid, cidOf, openMemory } from "../../lib/cas/mod.ts";
import { type Ids, type Log, SubletError } from "../../lib/home/mod.ts";
import { filesByPath } from "../../lib/job/mod.ts";
import {
  type Grant,
  type HostSample,
  type JobKind,
  type JobRef,
  LeaseEngine,
  type NoLease,
  type Pool,
  type Submission,
  type Submitted,
  type Timing,
  type WorkerCaller,
} from "../../lib/lease/mod.ts";
import { type Db, openSqlite, type Tx } from "../../lib/store/mod.ts";
import { settle, VirtualClock } from "../kit/virtual_clock.ts";

/** Timing of every test: the defaults of a server. */
export const TIMING = { renew: 10, grace: 50, toleration: 300 };

const fakeReport = z.object({
  kind: z.literal("fake"),
  value: z.number(),
  files: filesByPath.default({}),
});

/** A kind of job that writes down what happens to it, in the transaction that makes it happen. */
export class FakeKind implements JobKind {
  /** What the next call of a hook does instead of its work. */
  fail: ((hook: string) => void) | null = null;

  constructor(
    readonly kind: string = "fake",
    readonly slots: "agents" | "evaluations" = "evaluations",
  ) {}

  static async prepare(db: Db): Promise<void> {
    await db.write((tx) =>
      tx.run(
        `CREATE TABLE IF NOT EXISTS fake_log
         (id INTEGER PRIMARY KEY, job INTEGER, lease INTEGER, what TEXT, detail TEXT)`,
      )
    );
  }

  parse(report: unknown): unknown {
    const parsed = fakeReport.safeParse(report);
    if (parsed.success) return parsed.data;
    const message = JSON.stringify(parsed.error.issues);
    const unsafe = message.includes("is refused:");
    throw new SubletError(unsafe ? "unsafe_path" : "invalid_body", message);
  }

  blobs(report: unknown): Cid[] {
    return Object.values((report as z.output<typeof fakeReport>).files);
  }

  apply(tx: Tx, job: JobRef, report: unknown): Promise<void> {
    const value = (report as z.output<typeof fakeReport>).value;
    return this.#note(tx, job, job.revoked === undefined ? "applied" : "revoked", String(value));
  }

  started(tx: Tx, job: JobRef): Promise<void> {
    return this.#note(tx, job, "started", "");
  }

  lost(tx: Tx, job: JobRef, reason: string): Promise<void> {
    return this.#note(tx, job, "lost", reason);
  }

  ended(tx: Tx, job: JobRef, end: string, reason: string): Promise<void> {
    return this.#note(tx, job, end, reason);
  }

  retried(tx: Tx, job: JobRef): Promise<void> {
    return this.#note(tx, job, "retried", "");
  }

  async #note(tx: Tx, job: JobRef, what: string, detail: string): Promise<void> {
    await tx.run("INSERT INTO fake_log (job, lease, what, detail) VALUES (?, ?, ?, ?)", [
      job.id,
      job.lease,
      what,
      detail,
    ]);
    this.fail?.(what);
  }
}

/** Ids that count, and jitter that is none. */
export function countingIds(): Ids {
  let count = 0;
  return {
    uuid: () => `00000000-0000-4000-8000-${String(++count).padStart(12, "0")}`,
    random: () => 0.5,
  };
}

/** A host with plenty of everything. */
export const SAMPLE: HostSample = {
  at: "2026-01-01T00:00:00.000Z",
  cpus: 4,
  load1: 0.1,
  memory_available: 16e9,
  disk_free: 100e9,
};

/** What a rig is made with. */
export interface RigOptions {
  readonly pools?: Record<string, Pool>;
  readonly kinds?: readonly FakeKind[];
  readonly path?: string;
  readonly cas?: Cas;
  readonly keepDays?: number;
}

/** An engine and what it stands on. */
export class Rig implements AsyncDisposable {
  readonly events: { event: string; fields: Record<string, unknown> }[] = [];
  readonly ids = countingIds();
  /** Of the next engine. */
  timing: Timing = TIMING;
  engine: LeaseEngine;
  #keys = 0;

  private constructor(
    readonly options: RigOptions,
    readonly db: Db,
    readonly cas: Cas,
    readonly clock: VirtualClock,
    public kinds: readonly FakeKind[],
  ) {
    this.engine = this.#make();
  }

  static async make(options: RigOptions = {}): Promise<Rig> {
    const db = await openSqlite(options.path ?? ":memory:");
    await FakeKind.prepare(db);
    const rig = new Rig(
      options,
      db,
      options.cas ?? openMemory(),
      new VirtualClock(),
      options.kinds ?? [new FakeKind()],
    );
    await rig.engine.start();
    return rig;
  }

  #make(): LeaseEngine {
    const log: Log = { event: (event, fields = {}) => this.events.push({ event, fields }) };
    const { db, cas, clock, ids, kinds } = this;
    const pools = this.options.pools ?? { lab: { evaluations: 2 } };
    const { keepDays = null } = this.options;
    const { timing } = this;
    return new LeaseEngine({ db, cas, clock, ids, log, kinds, timing, pools, keepDays });
  }

  /** Another engine on the same database, after a close of the first or a crash of it. */
  async restart(close = true): Promise<void> {
    if (close) await this.engine.close();
    else this.clock.dropTimers();
    this.engine = this.#make();
    await this.engine.start();
  }

  /** Queue a job, of the fake kind unless said otherwise. */
  submit(job: Partial<Submission> = {}): Promise<Submitted> {
    return this.db.write((tx) =>
      this.engine.submit(tx, {
        kind: "fake",
        key: `job-${++this.#keys}`,
        jobCid: cidOf(new Uint8Array([1])),
        requires: {},
        campaign: null,
        repo: null,
        ...job,
      })
    );
  }

  /** What the kinds were told, in order. */
  notes(): Promise<{ job: number; lease: number; what: string; detail: string }[]> {
    return this.db.read((tx) =>
      tx.all("SELECT job, lease, what, detail FROM fake_log ORDER BY id")
    );
  }

  worker(name: string, init: Partial<WorkerCaller> = {}): FakeWorker {
    return new FakeWorker(this, name, init);
  }

  /** A worker that has registered. */
  async joined(name: string, init: JoinOptions = {}): Promise<FakeWorker> {
    const worker = this.worker(name);
    await worker.register(init);
    return worker;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine.close();
    await this.db[Symbol.asyncDispose]();
  }
}

/** What a fake worker registers with. */
export interface JoinOptions {
  readonly pool?: string;
  readonly runners?: readonly string[];
  readonly labels?: readonly string[];
  readonly once?: boolean;
}

/** A worker without a process: each method is one call. */
export class FakeWorker {
  readonly caller: WorkerCaller;
  sample = SAMPLE;

  constructor(readonly rig: Rig, readonly name: string, init: Partial<WorkerCaller>) {
    this.caller = {
      name,
      pool: null,
      incarnation: `${name}-1`,
      succeeds: null,
      local: false,
      ...init,
    };
  }

  async register(options: JoinOptions = {}) {
    const casProbe = await this.rig.cas.put(new TextEncoder().encode(`probe of ${this.name}`));
    return await this.rig.engine.register(this.caller, {
      version: "0.1.0",
      pool: "lab",
      runners: ["process"],
      labels: [],
      once: false,
      ...options,
      sample: this.sample,
      casProbe,
    });
  }

  acquire(request: string = crypto.randomUUID()): Promise<Grant | NoLease> {
    return this.rig.engine.acquire(this.caller, request, this.sample) as Promise<Grant | NoLease>;
  }

  /** The id of the lease that it takes; fails when it gets none. */
  async take(): Promise<number> {
    const grant = await this.acquire();
    if (typeof grant === "string") throw new Error(`${this.name} got no lease: ${grant}`);
    return grant.lease;
  }

  started(lease: number): Promise<void> {
    return this.rig.engine.started(this.caller, lease, { pgid: 7, start_time: 1.5 }, null);
  }

  heartbeat(...leases: number[]): Promise<Map<number, string>> {
    return this.rig.engine.heartbeat(
      this.caller,
      new Map(leases.map((lease) => [lease, null])),
      this.sample,
    );
  }

  report(lease: number, body: unknown = { kind: "fake", value: 1 }, request = `report-${lease}`) {
    return this.rig.engine.report(this.caller, lease, request, body);
  }

  lost(lease: number, reason = "it is gone"): Promise<void> {
    return this.rig.engine.lost(this.caller, lease, reason);
  }

  /** Its machine failed. */
  faulted(lease: number, reason = "its disk is full"): Promise<void> {
    return this.rig.engine.lost(this.caller, lease, reason, "machine");
  }

  messages(after = 0, wait = 25, signal?: AbortSignal) {
    return this.rig.engine.messages(this.caller, after, wait, signal);
  }

  /** Let `seconds` pass with a heartbeat for `leases` every ten. */
  async live(seconds: number, ...leases: number[]): Promise<void> {
    for (let left = seconds; left > 0; left -= 10) {
      await this.rig.clock.advance(Math.min(left, 10) * 1000);
      await this.heartbeat(...leases);
    }
  }
}

export { settle };
