/** @module Jobs of a machine: processes that take virtual time, which a worker starts, stops and finds again. */

import { cidOf } from "../../lib/cas/mod.ts";
import type { Cas } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import type { JobControl, JobHandle, JobRunner, Outcome } from "../../lib/job/mod.ts";
import type { Process } from "./machine.ts";
import type { Run, Runs } from "./runs.ts";

/** What a job of the simulation does. */
export interface SimJob {
  readonly kind: string;
  readonly key: string;
  readonly seconds: number;
  /** How it ends: well, with a report that names a blob nobody has, one that is none, lost, or with a fault. */
  readonly ends: "well" | "unstored" | "invalid" | "lost" | "fault";
}

/** A process of a job, which outlives the worker that started it. */
interface Child {
  readonly pid: number;
  readonly key: string;
  /** Monotonic time at which it is done. */
  readonly due: number;
  alive: boolean;
}

/** The processes of the jobs of one machine. */
export class Children {
  readonly #byPid = new Map<number, Child>();
  #pids = 100;

  start(key: string, due: number): Child {
    const child = { pid: ++this.#pids, key, due, alive: true };
    this.#byPid.set(child.pid, child);
    return child;
  }

  get(pid: number): Child | undefined {
    return this.#byPid.get(pid);
  }

  killAll(): void {
    for (const child of this.#byPid.values()) child.alive = false;
    this.#byPid.clear();
  }
}

/** Runs jobs of one kind in a worker's process. */
export class SimRunner implements JobRunner {
  constructor(
    readonly kind: string,
    private readonly process: Process,
    private readonly children: Children,
    private readonly cas: Cas,
    private readonly runs: Runs,
    /** Leases whose runs this process has, for prompts. */
    private readonly active: Map<number, Run>,
    private readonly disk: { readonly diskFull: boolean },
  ) {}

  async run(value: unknown, control: JobControl): Promise<Outcome> {
    const { clock, random } = this.process;
    const job = value as SimJob;
    // Checking out takes a while.
    await clock.sleep(random.between(50, 4_000), control.stop);
    if (control.stop.aborted) return this.#report(job, control, true);
    if (this.disk.diskFull) {
      throw Object.assign(new Error("no space is left on the device"), { code: "ENOSPC" });
    }
    if (job.ends === "fault") throw new Error("a fault of the runner");
    const child = this.children.start(job.key, clock.monotonic() + job.seconds * 1000);
    return await this.#watch(job, control, child);
  }

  async recover(
    value: unknown,
    held: { readonly handle: JobHandle | null },
    control: JobControl,
  ): Promise<Outcome> {
    const job = value as SimJob;
    const pid = held.handle !== null && "pgid" in held.handle ? held.handle.pgid : -1;
    const child = this.children.get(pid);
    if (child !== undefined && child.key === job.key && child.alive) {
      if (this.kind === "agent") return await this.#watch(job, control, child);
      child.alive = false;
    }
    return { lost: "the worker was started again" };
  }

  cleanup(_job: unknown, _lease: number): Promise<void> {
    return this.process.port("cleanup", 5, () => {});
  }

  /** See `child` to its end. */
  async #watch(job: SimJob, control: JobControl, child: Child): Promise<Outcome> {
    const { clock, random } = this.process;
    const run = this.runs.begin(job.key, control.lease, this.process.machine);
    this.active.set(control.lease, run);
    const end = () => {
      child.alive = false;
      this.active.delete(control.lease);
      this.runs.end(run);
    };
    if (!await control.started({ pgid: child.pid, start_time: 1 }, null)) {
      end();
      return { stale: true };
    }
    await clock.sleep(child.due - clock.monotonic(), control.stop);
    if (control.stop.aborted) {
      await clock.sleep(random.between(1, 4_900));
      end();
      return await this.#report(job, control, true);
    }
    end();
    return await this.#report(job, control, false);
  }

  async #report(job: SimJob, control: JobControl, stopped: boolean): Promise<Outcome> {
    const { lease } = control;
    const { clock } = this.process;
    if (!stopped && job.ends === "lost") return { lost: "the job says so" };
    if (!stopped && job.ends === "invalid") {
      return { report: { kind: this.kind, what: "no report" } };
    }
    const bytes = new TextEncoder().encode(`result of ${job.key} on ${lease}`);
    const files: Record<string, string> = {};
    if (!stopped && job.ends === "unstored") files.out = cidOf(bytes);
    else if (!stopped) {
      for (let tries = 0; tries < 8; tries++) {
        try {
          files.out = await this.cas.put(bytes);
          break;
        } catch (error) {
          if (!(error instanceof SubletError)) throw error;
          await clock.sleep(5_000, control.stop);
        }
      }
    }
    const cut = stopped ? { stopped: true } : {};
    return { report: { kind: this.kind, key: job.key, lease, files, ...cut } };
  }
}
