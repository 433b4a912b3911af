/** @module A worker's machine: its processes come and go, its spool and its jobs' processes stay. */

import { SubletError } from "../../lib/home/mod.ts";
import type { Registration, WorkerInfo } from "../../lib/lease/mod.ts";
import { HttpLeaseClient } from "../../lib/lease/http_client.ts";
import type { Spool, SpoolEntry } from "../../lib/lease/spool.ts";
import { MemorySpool } from "../../lib/lease/spool_memory.ts";
import { LeaseWorker } from "../../lib/lease/worker.ts";
import type { WorkerEnd } from "../../lib/lease/worker_options.ts";
import { isoTime } from "../../lib/lease/time.ts";
import type { HostSample } from "../../lib/lease/wire.ts";
import { type Machine, Process } from "./machine.ts";
import type { Network } from "./network.ts";
import { PiloopWorker } from "./piloop.ts";
import type { Random } from "./random.ts";
import { Children, type SimJob, SimRunner } from "./runner.ts";
import type { Run, Runs } from "./runs.ts";
import type { Blobs } from "./store.ts";

/** What a worker is. */
export interface WorkerSpec {
  /** Its credential's name: two machines may have the same. */
  readonly token: string;
  readonly pool: string;
  readonly labels: readonly string[];
  readonly once: boolean;
  /** It says that it takes one lease, and leaves it to the server to see to that. */
  readonly heedless?: boolean;
  readonly orphanExitSeconds: number | null;
  /** It is the worker inside the server, on its machine and over its Unix socket. */
  readonly serve?: boolean;
  /** It is one of piloop's. */
  readonly piloop?: boolean;
}

/** What a worker lives in. */
export interface Habitat {
  readonly random: Random;
  readonly network: Network;
  readonly blobs: Blobs;
  readonly runs: Runs;
  readonly onLog: (worker: SimWorker, event: string, fields: Record<string, unknown>) => void;
  readonly onStart: (worker: SimWorker, incarnation: string) => void;
  readonly onPrompt: (process: string, token: string, lease: number, text: string) => void;
  /** A report that the server can take is in the spool, or is put aside. */
  readonly onSpooled: (lease: number, kept: boolean) => void;
  readonly onEnd: (worker: SimWorker, end: WorkerEnd) => void;
}

/** A machine with a worker on it. */
export class SimWorker {
  readonly children = new Children();
  readonly spool = new MemorySpool();
  /** Whether the spool's disk is full. */
  diskFull = false;
  /** Chance that a call of the spool fails: with nothing done, or with everything, and nobody told. */
  spoolFails = 0;
  /** The file that remembers which processes the server may know. */
  #known: { registered: string | null; tried: readonly string[] } = { registered: null, tried: [] };
  #lives = 0;
  process: Process | null = null;
  worker: LeaseWorker | PiloopWorker | null = null;
  /** How its last process ended by itself. */
  end: WorkerEnd | null = null;
  /** Chance that a process dies at one call of a port. */
  fragile = 0;
  /** Chance that the processes of its jobs die with it. */
  takesAlong = 0.5;
  /** World time before which nobody starts it. */
  restUntil = 0;
  registrations = 0;
  #active = new Map<number, Run>();

  #ended: Promise<void> = Promise.resolve();

  constructor(
    readonly name: string,
    readonly machine: Machine,
    readonly spec: WorkerSpec,
    readonly habitat: Habitat,
  ) {}

  get alive(): boolean {
    return this.process?.alive === true;
  }

  /** Start a process, unless one lives. */
  start(): void {
    if (this.alive) return;
    const { random } = this.habitat;
    const process = new Process(this.machine, `${this.name}#${++this.#lives}`, random.fork());
    const active = new Map<number, Run>();
    this.process = process;
    this.#active = active;
    this.end = null;
    process.fragile = this.fragile;
    process.onDeath = () => {
      for (const run of active.values()) this.habitat.runs.end(run);
      active.clear();
      if (random.chance(this.takesAlong)) this.children.killAll();
    };
    this.machine.world.note(`${process.name} starts as ${this.spec.token}`);
    this.worker = this.spec.piloop === true
      ? this.#makePiloop(process, active)
      : this.#make(process, active);
    this.#ended = this.#live(process, active, this.worker.run());
  }

  /** Resolves when the process that lives ends by itself. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  async #live(process: Process, active: Map<number, Run>, ended: Promise<WorkerEnd>) {
    const end = await ended;
    if (!process.alive) return;
    const { world } = this.machine;
    world.note(`${process.name} ended: ${end.how}`);
    this.end = end;
    process.alive = false;
    for (const run of active.values()) {
      world.broken("an ended worker runs nothing", `${process.name} left ${run.key}`);
    }
    this.habitat.onEnd(this, end);
  }

  #runners(process: Process, active: Map<number, Run>): SimRunner[] {
    const cas = this.habitat.blobs.for(process);
    return ["agent", "evaluation"].map((kind) =>
      new SimRunner(kind, process, this.children, cas, this.habitat.runs, active, this)
    );
  }

  #spoolOf(process: Process): Spool {
    return new SimSpool(this.spool, process, this, this.habitat.onSpooled);
  }

  #prompt(process: Process, active: Map<number, Run>) {
    return (lease: number, text: string) =>
      process.port("prompt", 20, () => {
        if (!active.has(lease)) return "it does not run here";
        this.habitat.onPrompt(process.name, this.spec.token, lease, text);
        return null;
      });
  }

  #makePiloop(process: Process, active: Map<number, Run>): PiloopWorker {
    return new PiloopWorker({
      http: this.habitat.network.client(process, this.spec.token),
      process,
      cas: this.habitat.blobs.for(process),
      runners: this.#runners(process, active),
      spool: this.#spoolOf(process),
      pool: this.spec.pool,
      sample: () => sampleOf(process),
      prompt: this.#prompt(process, active),
      onRegistered: () => this.registrations++,
    });
  }

  #make(process: Process, active: Map<number, Run>): LeaseWorker {
    const { network, blobs } = this.habitat;
    const { world } = this.machine;
    const { token, pool, labels, once, heedless = false, orphanExitSeconds, serve } = this.spec;
    const id = process.ids.uuid();
    this.habitat.onStart(this, id);
    const { registered, tried } = this.#known;
    const succeeds = [...(registered === null ? [] : [registered]), ...tried.toReversed()];
    this.#known = { registered, tried: [...tried, id].slice(-15) };
    return new LeaseWorker({
      client: new (once ? OnceClient : HttpLeaseClient)(network.client(process, token, serve)),
      clock: process.clock,
      ids: process.ids,
      log: {
        event: (event, fields = {}) => {
          if (!process.alive) return;
          world.note(`${process.name} ${event} ${JSON.stringify(fields)}`);
          this.habitat.onLog(this, event, fields);
        },
      },
      cas: blobs.for(process),
      sampleHost: () => Promise.resolve(sampleOf(process)),
      runners: this.#runners(process, active),
      spool: this.#spoolOf(process),
      incarnation: {
        id,
        succeeds,
        registered: () =>
          process.port("incarnation", 3, () => {
            this.#known = { registered: id, tried: [] };
          }),
      },
      pool,
      version: "0.0.0",
      labels,
      once: once && !heedless,
      orphanExitSeconds,
      prompt: this.#prompt(process, active),
      onRegistered: () => this.registrations++,
    });
  }

  /** Kill the process. */
  crash(why: string): void {
    this.process?.die(why);
  }

  /** Cut the power: what the machine ran is gone. */
  powerCut(): void {
    this.crash("a power cut");
    this.children.killAll();
  }

  get running(): readonly number[] {
    return [...this.#active.keys()];
  }
}

function sampleOf(process: Process): HostSample {
  return {
    at: isoTime(process.clock.now()),
    cpus: 2,
    load1: 0,
    memory_available: 1e9,
    disk_free: 1e9,
  };
}

/** Says that its worker takes one lease, whatever that thinks. */
class OnceClient extends HttpLeaseClient {
  override register(info: WorkerInfo, signal?: AbortSignal): Promise<Registration> {
    return super.register({ ...info, once: true }, signal);
  }
}

/** A spool on a disk that can be full or fail, of a process that can die. */
class SimSpool implements Spool {
  constructor(
    private readonly kept: MemorySpool,
    private readonly process: Process,
    private readonly disk: { readonly diskFull: boolean; readonly spoolFails: number },
    private readonly spooled: (lease: number, kept: boolean) => void,
  ) {}

  load(worker: string): Promise<SpoolEntry[]> {
    return this.#call("spool load", () => this.kept.load(worker));
  }

  keep(worker: string, entry: SpoolEntry): Promise<void> {
    return this.#call("spool keep", () => {
      if (this.disk.diskFull) throw failed("no space is left on the device");
      const job = entry.job as SimJob | null;
      if ("report" in entry.outcome && job?.ends === "well") this.spooled(entry.lease, true);
      return this.kept.keep(worker, entry);
    });
  }

  drop(worker: string, lease: number): Promise<void> {
    return this.#call("spool drop", () => this.kept.drop(worker, lease));
  }

  setAside(worker: string, lease: number): Promise<void> {
    this.spooled(lease, false);
    return this.#call("spool set aside", () => this.kept.setAside(worker, lease));
  }

  #call<T>(what: string, effect: () => Promise<T>): Promise<T> {
    const { random, machine: { world, name } } = this.process;
    const fails = this.disk.spoolFails > 0 && random.chance(this.disk.spoolFails);
    const half = fails && random.chance(0.5);
    return this.process.port(what, random.between(0.5, 40), async () => {
      if (fails) world.note(`${name} ${what}: ${half ? "not done" : "done"}, and failed`);
      // A write that is cut short leaves what was there: a spool writes beside it, and renames.
      if (half) throw failed("a short write");
      const value = await effect();
      if (fails) throw failed("the disk could not sync it");
      return value;
    });
  }
}

function failed(why: string): SubletError {
  return new SubletError("unavailable", why);
}
