/** @module A server, its workers and everything between them, in one process and one virtual time. */

import type { LeaseEngine, Submission, Timing } from "../../lib/lease/mod.ts";
import { messageOf } from "../../lib/home/mod.ts";
import type { Db } from "../../lib/store/mod.ts";
import { type Backup, Disk } from "./database.ts";
import type { Changes } from "./feed.ts";
import { Machine } from "./machine.ts";
import { Model } from "./model.ts";
import { Network } from "./network.ts";
import { Random } from "./random.ts";
import { checkRules, type Surroundings } from "./rules.ts";
import { Runs } from "./runs.ts";
import type { SimJob } from "./runner.ts";
import { SimServer } from "./server.ts";
import { Blobs } from "./store.ts";
import { SimWorker, type WorkerSpec } from "./worker.ts";
import { Watch } from "./watch.ts";
import { World } from "./world.ts";

/** Slots of each worker, by pool. */
export const POOLS = {
  lab: { agents: 1, evaluations: 2 },
  gpu: { agents: 0, evaluations: 1 },
  serve: { agents: 1, evaluations: 1 },
};
export const TIMING: Timing = { renew: 10, grace: 50, toleration: 300 };
/** The first byte of a JSON object: a proxy's page has another. */
const BRACE = 0x7b;
const START_WALL = 1_790_000_000_000;

/** What is simulated. */
export interface SimOptions {
  readonly timing?: Timing;
  /** Largest difference of a clock's rate from 1. Default 0. */
  readonly drift?: number;
}

/** A worker of the pool `lab` that takes any number of jobs. */
export const PLAIN: Omit<WorkerSpec, "token"> = {
  pool: "lab",
  labels: [],
  once: false,
  orphanExitSeconds: null,
};

/** Events that mean a fault of the code, whatever happens around it. */
const FAULTS = new Set(["worker.loop_failed", "report.failed", "lease.not_cleaned"]);

/** The whole. */
export class Simulation implements AsyncDisposable {
  readonly world = new World();
  readonly random: Random;
  readonly network: Network;
  readonly blobs = new Blobs(this.world);
  readonly runs: Runs;
  readonly workers: SimWorker[] = [];
  /** How often each prompt was delivered. */
  readonly prompts = new Map<string, number>();
  model = new Model();
  readonly around: Surroundings = {
    pools: POOLS,
    issued: new Set(),
    newest: 0,
    steady: true,
    faulted: new Set(),
    granted: new Map(),
    cancelled: new Set(),
    holds: (cid) => this.blobs.holds(cid),
  };
  disk!: Disk;
  server!: SimServer;
  readonly timing: Timing;
  readonly watch: Watch;
  /** World time of the last fault of a worker's machine: the worker asks for nothing for a while. */
  hostFaultAt = -Infinity;
  /** The job that a fault of several steps wants to run. */
  staged: string | null = null;
  /** Jobs that the server has not taken yet. */
  submitting = 0;
  #jobs = 0;
  #prompts = 0;
  #rates: Random;

  private constructor(readonly seed: number, readonly options: SimOptions) {
    this.random = new Random(seed);
    this.network = new Network(this.world, this.random.fork());
    this.runs = new Runs(this.world);
    this.runs.lax = (options.drift ?? 0) > 0.005;
    this.timing = options.timing ?? TIMING;
    this.#rates = this.random.fork();
    this.watch = new Watch(
      this.world,
      this.timing,
      () => this.server.options.machine,
      () => this.model,
    );
  }

  static async make(seed: number, options: SimOptions = {}): Promise<Simulation> {
    const sim = new Simulation(seed, options);
    sim.disk = await Disk.open(sim.world, sim.random.fork(), (changes) => sim.#changed(changes));
    sim.server = new SimServer({
      world: sim.world,
      random: sim.random.fork(),
      disk: sim.disk,
      blobs: sim.blobs,
      machine: sim.#machine("server"),
      timing: sim.timing,
      pools: POOLS,
      onRequest: (delivery) => {
        const lease = sim.watch.asked(delivery);
        if (lease !== null) sim.around.faulted.add(lease);
      },
      onAnswer: (delivery, status, body) => sim.watch.answered(delivery, status, body),
      onReady: () => sim.#inside((worker) => worker.start()),
      onClose: () => sim.#close(),
      onDown: () => sim.#inside((worker) => worker.crash("its server is gone")),
      onLog: (event, fields) => {
        if (event === "http.failed" && "stack" in fields) {
          sim.world.broken("no fault of the server's own", String(fields.stack));
        }
      },
    });
    sim.runs.onEnd = (run) => sim.watch.ended(run);
    sim.blobs.onGone = (cid) => {
      if (!sim.model.named.has(cid)) return;
      sim.world.broken("blobs that something live names are in the store", `${cid} was deleted`);
    };
    sim.network.onAnswer = (process, call, { status, body }) => {
      if (call !== "heartbeat" || status !== 200 || body[0] !== BRACE) return;
      const said: Record<string, string> = JSON.parse(new TextDecoder().decode(body));
      const stale = Object.keys(said).filter((lease) => said[lease] === "stale").map(Number);
      const worker = sim.workers.find((each) => each.process === process);
      if (stale.length > 0 && worker !== undefined) sim.watch.heard(worker, stale);
    };
    sim.network.deliver = (delivery, reply) => sim.server.deliver(delivery, reply);
    sim.server.startIn(0);
    return sim;
  }

  #machine(name: string): Machine {
    const drift = this.options.drift ?? 0;
    const rate = 1 + this.#rates.between(-drift, drift);
    return new Machine(this.world, name, rate, START_WALL + this.#rates.between(-1e5, 1e5));
  }

  /** For the worker inside the server, if there is one. */
  #inside(act: (worker: SimWorker) => void): void {
    for (const worker of this.workers) if (worker.spec.serve === true) act(worker);
  }

  /** The server is about to close: the worker inside it ends first. */
  async #close(): Promise<void> {
    const living = this.workers.filter(({ spec, alive }) => spec.serve === true && alive);
    await Promise.all(living.map((worker) => {
      worker.worker?.drain(5);
      return worker.ended;
    }));
  }

  /** A machine with a worker, which `start` starts; the one inside the server starts with it. */
  addWorker(name: string, spec: Partial<WorkerSpec> = {}): SimWorker {
    const worker = new SimWorker(
      name,
      spec.serve === true ? this.server.options.machine : this.#machine(name),
      { ...PLAIN, token: name, ...spec },
      {
        random: this.random.fork(),
        network: this.network,
        blobs: this.blobs,
        runs: this.runs,
        onLog: (of, event, fields) => {
          if (event === "worker.host_fault") this.hostFaultAt = this.world.now;
          if (!FAULTS.has(event)) return;
          // A spool that fails to forget is no fault of the code: the next process sends the entry again.
          if (event === "lease.not_cleaned" && of.spoolFails > 0) return;
          const { error } = fields;
          const text = error instanceof Error ? error.stack ?? error.message : String(error);
          this.world.broken("no fault of the worker's own", `${of.name} ${event}: ${text}`);
        },
        onStart: (of, incarnation) => this.watch.machineOf.set(incarnation, of.name),
        onPrompt: (process, token, lease, text) => {
          const prompt = `${token}/${lease}/${text}`;
          this.prompts.set(prompt, (this.prompts.get(prompt) ?? 0) + 1);
          this.watch.prompted(process, prompt);
        },
        onSpooled: (lease, kept) => this.watch.spooled(lease, kept),
        onEnd: (of, end) => {
          if (end.how !== "refused" || end.error.code === "superseded") return;
          // Piloop's leave at any page of a proxy.
          if (of.spec.piloop === true) return;
          this.world.broken(
            "only a worker that was replaced is refused",
            `${of.name}: ${end.error.code}: ${end.error.message}`,
          );
        },
      },
    );
    this.workers.push(worker);
    return worker;
  }

  #changed(changes: Changes): void {
    this.model.apply(changes);
    this.watch.changed(changes);
    for (const { id, before, after } of changes.jobs) {
      if (before !== null && before.state !== "open" && after.state === "open") {
        this.around.cancelled.delete(id);
      }
    }
    for (const { id, before, after } of changes.leases) {
      if (before?.state !== after.state) this.world.note(`lease ${id} ${after.state}`);
    }
    checkRules(
      this.model,
      changes,
      this.around,
      (rule, what) => this.world.broken(rule, what),
    );
  }

  /** Ask the server for something, as an operator does; null when nobody answers for ten seconds. */
  ask<T>(
    what: string,
    call: (engine: LeaseEngine, db: Db) => Promise<T>,
  ): Promise<{ readonly value: T } | { readonly error: unknown } | null> {
    const { engine, db } = this.server;
    if (engine === null || db === null || this.server.options.machine.still !== null) {
      return Promise.resolve(null);
    }
    return new Promise((resolve) => {
      const cancel = this.world.at(this.world.now + 10_000, () => resolve(null));
      const end = (answer: { readonly value: T } | { readonly error: unknown }) => {
        cancel();
        const text = "error" in answer ? messageOf(answer.error) : JSON.stringify(answer.value);
        this.world.note(`operator ${what}: ${text}`);
        resolve(answer);
      };
      call(engine, db).then((value) => end({ value }), (error) => end({ error }));
    });
  }

  /** Submit a job until the server takes it; its key. */
  submit(job: Partial<SimJob> = {}, options: Partial<Submission> = {}): string {
    const kind = job.kind ?? "evaluation";
    const key = `job-${++this.#jobs}`;
    const whole: SimJob = { seconds: 10, ends: "well", ...job, kind, key };
    void this.#submit(whole, options);
    return key;
  }

  async #submit(job: SimJob, options: Partial<Submission>): Promise<void> {
    this.submitting++;
    const bytes = new TextEncoder().encode(JSON.stringify(job));
    const jobCid = this.blobs.put(bytes);
    while (true) {
      const done = await this.ask(
        `submits ${job.key}`,
        (engine, db) =>
          db.write((tx) =>
            engine.submit(tx, {
              kind: job.kind,
              key: job.key,
              jobCid,
              requires: {},
              campaign: null,
              repo: null,
              ...options,
            })
          ),
      );
      if (done !== null && "value" in done) return void this.submitting--;
      await this.world.sleep(3_000);
    }
  }

  /** A number for the next prompt. */
  promptId(): number {
    return ++this.#prompts;
  }

  /** The id of a job by its key. */
  job(key: string): number | null {
    for (const [id, job] of this.model.jobs) if (job.key === key) return id;
    return null;
  }

  stateOf(key: string): string | undefined {
    const id = this.job(key);
    return id === null ? undefined : this.model.jobs.get(id)?.state;
  }

  async cancel(key: string): Promise<void> {
    const id = this.job(key);
    if (id === null) return;
    const era = this.runs.era;
    const done = await this.ask(`cancels ${key}`, (engine) => engine.cancelJob(id, "not wanted"));
    if (done === null || "error" in done || done.value === "ended" || era !== this.runs.era) return;
    this.around.cancelled.add(id);
  }

  /** Go back to an old database. */
  async restore(backup: Backup): Promise<void> {
    this.world.note(`restore of ${backup.at}`);
    await this.server.restore(backup);
    this.runs.era++;
    this.model = new Model();
    this.model.apply(await this.disk.everything());
    this.around.cancelled.clear();
    this.around.faulted.clear();
    this.around.granted.clear();
    this.watch.reset();
  }

  /** Let `seconds` pass, or less when `until` comes true; whether it did. */
  run(seconds: number, until?: () => boolean): Promise<boolean> {
    return this.world.run(this.world.now + seconds * 1000, until);
  }

  /** The database is what its changes said. */
  async checkModel(): Promise<void> {
    const found = new Model();
    found.apply(await this.disk.everything());
    if (found.text() !== this.model.text()) {
      this.world.broken(
        "every change is in the feed",
        `${found.text()} is not ${this.model.text()}`,
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.workers) worker.crash("the end");
    this.server.crash("the end");
    await this.disk[Symbol.asyncDispose]();
  }
}
