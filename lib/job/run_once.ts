/** @module One run of an evaluation: its checkout, its inputs, its command, and what it came to. */

import { join } from "node:path";
import type { Placed } from "../cas/mod.ts";
import { isHostFault, messageOf, SubletError } from "../home/mod.ts";
import { logSource } from "./live_source.ts";
import { LiveStream } from "./live_stream.ts";
import { LiveSync } from "./live_sync.ts";
import type { Clones } from "./run_clones.ts";
import { type Ended, runCommand } from "./run_command.ts";
import { changedInputs, type Inputs, placeInputs, type Visit } from "./run_inputs.ts";
import { judge, killedByStranger, notRun, stopped } from "./run_judge.ts";
import type { LogLimits } from "./run_logs.ts";
import { retryAway } from "./run_patience.ts";
import type { RunPlace } from "./run_place.ts";
import type { JobControl, Site } from "./runner.ts";
import type { EvaluationJob, Sample, Source } from "./shapes.ts";
import { STREAM_LIMITS } from "./stream_shapes.ts";

/** What the runs of an evaluation have in common. */
export interface RunContext {
  readonly site: Site;
  readonly clones: Clones;
  readonly inputs: Inputs;
  readonly control: JobControl;
  readonly job: EvaluationJob;
  readonly place: RunPlace;
  /** Marks every process of the job. */
  readonly tag: string;
  readonly graceMs: number;
  readonly logs: LogLimits;
  /** Milliseconds between two looks at what it prints. */
  readonly everyMs: number;
}

/** What a run came to. */
export interface Run {
  /** Null when its lease is stale: there is nothing to say. */
  readonly sample: Sample | null;
  /** Whether somebody other than us killed it. */
  readonly stranger: boolean;
  /** Remove its checkout. */
  readonly discard: () => Promise<void>;
}

/**
 * Run the command on `source` in the run directory `name`. What keeps it from running is in its sample; it rejects when
 * the lease's state cannot be recorded, or its processes not be stopped, and with a fault of this machine, such as a full
 * disk, which is none of the candidate's.
 */
export async function runOnce(context: RunContext, source: Source, name: string): Promise<Run> {
  const { control, place } = context;
  const discard = async () => await (await context.clones.of(source)).discard(worktree);
  const worktree = place.makeRun(name);
  using visit = context.inputs.enter(Object.keys(source.links).length > 0);
  let placed: readonly Placed[];
  try {
    placed = await prepare(context, source, worktree);
  } catch (error) {
    if (!control.stop.aborted && isHostFault(error)) throw error;
    const reason = control.stop.aborted
      ? stopped(control.stop)
      : `could not run: ${messageOf(error)}`;
    return { sample: notRun(reason), stranger: false, discard };
  }
  if (control.stop.aborted) {
    return { sample: notRun(stopped(control.stop)), stranger: false, discard };
  }
  const run = await execute(context, name, worktree, { placed, visit });
  return { ...run, discard };
}

/** The checkout with its inputs. A store or a server that is away for a moment is no fault of the candidate's. */
async function prepare(
  context: RunContext,
  source: Source,
  worktree: string,
): Promise<readonly Placed[]> {
  const { site, clones, inputs, control } = context;
  return await retryAway(site, control, "evaluation.not_ready", async () => {
    const repository = await clones.of(source);
    const supply = clones.supply(source, control.stop);
    await repository.checkout(source.revision, worktree, supply, control.stop);
    return await placeInputs(site, inputs, source, worktree, control.stop);
  });
}

async function execute(
  context: RunContext,
  name: string,
  worktree: string,
  { placed, visit }: { readonly placed: readonly Placed[]; readonly visit: Visit },
): Promise<Omit<Run, "discard">> {
  const { site, control, job, place, tag, graceMs, logs } = context;
  const units = place.units(site.ids.uuid());
  const files = {
    root: place.root,
    stdout: `${name}/eval.stdout`,
    stderr: `${name}/eval.stderr`,
    units,
  };
  let started = false;
  const watched: JobControl = {
    lease: control.lease,
    stop: control.stop,
    started: (handle, session) => {
      started = true;
      return control.started(handle, session);
    },
  };
  const live = readAlong(context, [files.stdout, files.stderr]);
  let ended: Ended;
  try {
    ended = await runCommand(site, watched, {
      argv: job.command,
      cwd: worktree,
      env: environment(context, join(place.root, units)),
      stdout: join(place.root, files.stdout),
      stderr: join(place.root, files.stderr),
      tag,
      place: place.root,
      timeout: job.timeout,
      graceMs,
      maxOutput: logs.stopBytes,
    });
  } catch (error) {
    if (started || isHostFault(error)) throw error;
    return { sample: notRun(`could not run: ${messageOf(error)}`), stranger: false };
  } finally {
    // What it printed last is in the report, with all the rest: no server that is away delays that.
    void live?.close(false);
  }
  if (ended.cause === "stale") return { sample: null, stranger: false };
  const changed = await changedInputs(site, worktree, placed);
  if (changed?.sharedOnly === true && !visit.alone && !control.stop.aborted) {
    throw new SubletError(
      "conflict",
      "linked inputs that it shares were changed while other jobs ran beside it, so what it measured says nothing",
    );
  }
  const sample = await judge(ended, files, job, control.stop, changed?.message ?? null);
  return { sample, stranger: killedByStranger(ended) };
}

/** Send what is printed to the server as it comes; null when nobody takes it. */
function readAlong(
  { site, control, place, everyMs }: RunContext,
  names: readonly string[],
): LiveSync | null {
  if (control.saved === undefined) return null;
  const { clock, log, cas } = site;
  const sync = new LiveSync({ clock, log, lease: control.lease, everyMs });
  for (const name of names) {
    sync.add(
      new LiveStream({
        cas,
        save: async (part) => await control.saved?.(part) ?? false,
        name,
        source: logSource(place.root, name),
        hide: null,
        head: STREAM_LIMITS.head,
        tail: STREAM_LIMITS.tail,
      }),
    );
  }
  return sync;
}

function environment({ site, job }: RunContext, units: string): Record<string, string> {
  const deadline = Math.floor(site.clock.now() / 1000 + job.timeout);
  return {
    SUBLET_UNITS_FILE: units,
    // Commands that were written for piloop find it under this name.
    PILOOP_UNITS_FILE: units,
    SUBLET_DEADLINE: String(deadline),
  };
}
