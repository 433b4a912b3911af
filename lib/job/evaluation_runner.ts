/** @module Evaluations on a worker: the runs of a candidate and its bar, and the report of what they came to. */

import { isError, isHostFault, messageOf, type ProcessRef } from "../home/mod.ts";
import { GitVcs } from "../vcs/mod.ts";
import { Clones, type VcsByName } from "./run_clones.ts";
import { Inputs } from "./run_inputs.ts";
import { notRun, stopped } from "./run_judge.ts";
import { LOG_LIMITS, type LogLimits, type StoredLogs, storeLogs } from "./run_logs.ts";
import { type Run, type RunContext, runOnce } from "./run_once.ts";
import { LeftJobs } from "./run_left.ts";
import { RunPlace } from "./run_place.ts";
import type { JobControl, JobHandle, JobRunner, Outcome, Site } from "./runner.ts";
import { type EvaluationJob, evaluationJob, type Sample, type Source } from "./shapes.ts";

/** Settings of an {@linkcode EvaluationRunner}. */
export interface EvaluationRunnerOptions {
  /** Where checkouts come from. Default: git. */
  readonly vcs?: VcsByName;
  /** Milliseconds between TERM and KILL. Default 5,000. */
  readonly graceMs?: number;
  readonly logs?: Partial<LogLimits>;
  /** Shared with other runners of the worker. Default: its own. */
  readonly inputs?: Inputs;
  /** Milliseconds between two looks at what a run prints, for whoever reads along. Default 2,000. */
  readonly everyMs?: number;
}

/** One run, in order: whose, and its number from 0. */
interface Turn {
  readonly side: "candidate" | "bar";
  readonly number: number;
}

/** How long log files are tried to be stored while the store cannot be reached, milliseconds. */
const LOGS_MS = 10 * 60 * 1000;
const MAX_WAIT_MS = 30_000;
/** A process that is not there, for stopping by tag alone: its pid is beyond every kernel's largest. */
const NO_PROCESS: ProcessRef = { pid: 2 ** 31 - 1, startTime: 0 };

/** The order of the runs: with a bar, pairs that alternate in who goes first, so that drift hits both alike. */
export function* turnsOf(repeats: number, paired: boolean): Generator<Turn> {
  for (let number = 0; number < repeats; number++) {
    if (!paired) yield { side: "candidate", number };
    else if (number % 2 === 0) {
      yield* [{ side: "candidate", number }, { side: "bar", number }] as const;
    } else yield* [{ side: "bar", number }, { side: "candidate", number }] as const;
  }
}

/** Runs evaluations on a site. One instance serves all of a worker's. */
export class EvaluationRunner implements JobRunner {
  readonly kind = "evaluation";
  readonly #site: Site;
  readonly #clones: Clones;
  readonly #inputs: Inputs;
  readonly #graceMs: number;
  readonly #everyMs: number;
  readonly #logs: LogLimits;
  readonly #left: LeftJobs;

  constructor(site: Site, options: EvaluationRunnerOptions = {}) {
    this.#site = site;
    this.#clones = new Clones(site, options.vcs ?? { git: new GitVcs(site) });
    this.#inputs = options.inputs ?? new Inputs(site);
    this.#everyMs = options.everyMs ?? 2_000;
    this.#graceMs = options.graceMs ?? 5000;
    this.#logs = { ...LOG_LIMITS, ...options.logs };
    this.#left = new LeftJobs(site.home, site.worker ?? "worker");
  }

  /** Free at least `bytes` of the home's disk, if linked inputs that no job uses take as much; the bytes freed. */
  async evictInputs(bytes: number): Promise<number> {
    return await this.#inputs.shared.evict(bytes);
  }

  async run(value: unknown, control: JobControl): Promise<Outcome> {
    const parsed = evaluationJob.safeParse(value);
    if (!parsed.success) return this.#refused(invalid(parsed.error));
    const job = parsed.data;
    if (job.runner !== "process") {
      return this.#refused(`this worker has no runner ${JSON.stringify(job.runner)}`);
    }
    const place = new RunPlace(this.#site.home, job, control.lease);
    const tag = this.#site.ids.uuid();
    if (place.exists) await this.cleanup(job, control.lease);
    this.#left.began({ lease: control.lease, tag, place: job.place });
    place.make(tag);
    const context: RunContext = {
      site: this.#site,
      clones: this.#clones,
      inputs: this.#inputs,
      control,
      job,
      place,
      tag,
      graceMs: this.#graceMs,
      logs: this.#logs,
      everyMs: this.#everyMs,
    };
    const samples = await this.#runAll(context);
    if (samples === null) {
      await this.cleanup(job, control.lease);
      return { stale: true };
    }
    const failed = [...samples.candidate, ...samples.bar].some((sample) => sample.error !== null);
    // Ours: tells runs that were stopped from ones that failed by themselves.
    const cut = failed && control.stop.aborted ? { stopped: true } : {};
    const files = await this.#store(place, control);
    const report = { samples: samples.candidate, bar_samples: samples.bar, files };
    return { report: { kind: this.kind, ...report, ...cut } };
  }

  /** No worker of this version can run it, today or tomorrow: its evaluation fails, rather than be tried again. */
  #refused(reason: string): Outcome {
    const report = { samples: [notRun(reason)], bar_samples: [], files: {} };
    return { report: { kind: this.kind, ...report } };
  }

  /** Every run up to the first that fails, or null when the lease is stale. */
  async #runAll(context: RunContext): Promise<Record<Turn["side"], Sample[]> | null> {
    const { job, control } = context;
    const samples: Record<Turn["side"], Sample[]> = { candidate: [], bar: [] };
    let before: Run | null = null;
    for (const { side, number } of turnsOf(job.repeats, job.bar !== null)) {
      // The last checkout is removed after the report; the others make room for the next.
      if (before !== null) await this.#makeRoom(before);
      const source = side === "bar" && job.bar !== null ? job.bar.artifact : job.artifact;
      const run: Run | null = control.stop.aborted
        ? null
        : await this.#turn(context, source, `${side}-${number}`);
      before = run;
      const sample: Sample | null = run === null ? notRun(stopped(control.stop)) : run.sample;
      if (sample === null) return null;
      samples[side].push(sample);
      if (sample.error !== null) break;
    }
    return samples;
  }

  /** A run, and once more when somebody else killed it. */
  async #turn(context: RunContext, source: Source, name: string): Promise<Run> {
    const run = await runOnce(context, source, name);
    if (!run.stranger || context.control.stop.aborted) return run;
    const { control, job } = context;
    const fields = { lease: control.lease, evaluation: job.evaluation, run: name };
    this.#site.log.event("evaluation.retry", { ...fields, error: run.sample?.error });
    await this.#makeRoom(run);
    return await runOnce(context, source, `${name}-again`);
  }

  /** Remove the checkout of an earlier run. One that cannot be removed now is the cleanup's to remove. */
  async #makeRoom(run: Run): Promise<void> {
    try {
      await run.discard();
    } catch (error) {
      this.#site.log.event("evaluation.checkout_left", { error: messageOf(error) });
    }
  }

  /** Store the log files, patiently: what was measured is worth more than they are, and is reported without them. */
  async #store(place: RunPlace, control: JobControl): Promise<StoredLogs["files"]> {
    const { clock, log, cas } = this.#site;
    const end = clock.monotonic() + LOGS_MS;
    for (let wait = 500;; wait = Math.min(wait * 2, MAX_WAIT_MS)) {
      try {
        const { files, leftOut } = await storeLogs(cas, place.root, place.isNoLog, this.#logs);
        if (leftOut.count > 0) log.event("evaluation.logs_left_out", { ...leftOut });
        return files;
      } catch (error) {
        // A disk that is full here stays so for as long as nothing is reported.
        const away = isError(error, "unavailable", "unreachable", "busy") && !isHostFault(error);
        const again = away && !control.stop.aborted && clock.monotonic() + wait < end;
        log.event("evaluation.logs_not_stored", {
          lease: control.lease,
          again,
          error: messageOf(error),
        });
        if (!again) return {};
        await clock.sleep(wait, control.stop);
      }
    }
  }

  async recover(
    value: unknown,
    held: { readonly handle: JobHandle | null; readonly startedAt: string | null },
    control: JobControl,
  ): Promise<Outcome> {
    const parsed = evaluationJob.safeParse(value);
    if (!parsed.success) return this.#refused(invalid(parsed.error));
    const place = new RunPlace(this.#site.home, parsed.data, control.lease);
    await this.#stopLeft(held.handle, await place.tag(), place.root);
    await this.#discard(parsed.data, place);
    return { lost: "its worker started again while the evaluation ran" };
  }

  /** Stop what an earlier process of this worker started: the group whose leader is known, and all with the tag. */
  async #stopLeft(handle: JobHandle | null, tag: string | null, place: string): Promise<void> {
    const { processes } = this.#site;
    let leader: ProcessRef | null = null;
    if (handle !== null && "pgid" in handle && handle.start_time !== null) {
      const ref = { pid: handle.pgid, startTime: handle.start_time };
      // A pid may be somebody else's by now.
      if (await processes.alive(ref)) leader = ref;
    }
    await processes.stop(leader ?? NO_PROCESS, tag, this.#graceMs, place);
  }

  async cleanup(value: unknown, lease: number): Promise<void> {
    const parsed = evaluationJob.safeParse(value);
    if (!parsed.success) return;
    const place = new RunPlace(this.#site.home, parsed.data, lease);
    await this.#discard(parsed.data, place);
    await place.remove();
    await this.#left.over(lease);
  }

  async stopLeft(): Promise<void> {
    const { processes, log, home } = this.#site;
    await Promise.all((await this.#left.all()).map(async ({ lease, tag, place }) => {
      try {
        const { root } = new RunPlace(home, { place }, lease);
        await processes.stop(NO_PROCESS, tag, this.#graceMs, root);
      } catch (error) {
        log.event("evaluation.left_running", { lease, error: messageOf(error) });
      }
    }));
  }

  async removeLeft(isHeld: (lease: number) => boolean): Promise<void> {
    const { home, log } = this.#site;
    for (const { lease, place } of await this.#left.all()) {
      if (isHeld(lease)) continue;
      await new RunPlace(home, { place }, lease).remove();
      await this.#left.over(lease);
      log.event("evaluation.left_removed", { lease });
    }
  }

  async #discard(job: EvaluationJob, place: RunPlace): Promise<void> {
    for (const path of await place.worktrees()) {
      const name = path.slice(place.root.length + 1);
      const source = name.startsWith("bar-") && job.bar !== null ? job.bar.artifact : job.artifact;
      await (await this.#clones.of(source)).discard(path);
    }
  }
}

function invalid(
  error: { readonly issues: readonly { path: PropertyKey[]; message: string }[] },
): string {
  const [issue] = error.issues;
  const where = issue?.path.map(String).join(".") ?? "";
  const message = issue?.message ?? "";
  // What judges paths names the field itself.
  const said = where === "" || message.startsWith(`${where}: `) ? message : `${where}: ${message}`;
  return `the job is not valid: ${said}`;
}
