/** @module The `Processes` port on this machine. */

import {
  type Env,
  type ExecResult,
  type ExecSpec,
  type Exit,
  type Log,
  nullLog,
  type Processes,
  type ProcessRef,
  type StartSpec,
  SubletError,
} from "../../home/mod.ts";
import { ControlGroups } from "./control_group.ts";
import { execHelper } from "./helper_exec.ts";
import { baseEnv, checkEnv, checkTag, TAG } from "./job_env.ts";
import { launchProcess } from "./launch.ts";
import { groupMembers, processAt } from "./process_table.ts";
import { isGroup, isProcess, type Stop, stopProcesses } from "./process_stop.ts";

/** What {@linkcode systemProcesses} needs to know. */
export interface SystemProcessesOptions {
  /** This process's environment, of which jobs get the allow-list of `job_env.ts`. Default: as it is now. */
  readonly env?: Env;
  /** Told of processes that a job left outside of its group. */
  readonly log?: Log;
}

/** How often a process that this one did not start is asked for, and how often it is looked at more closely. */
const POLL_MS = 100;
const LOOK_MS = 5_000;
/** The boot time, which start times count from, is told to the second, and wanders by one. */
const SAME_START_SECONDS = 1.5;
/** How many processes are remembered after their end. */
const REMEMBERED = 256;

/** A process that this one started. */
interface Child {
  readonly ref: ProcessRef;
  readonly exit: Promise<Exit>;
  readonly place: string | null;
  ended: boolean;
}

/** Processes of this machine, for whoever may start any. */
export function systemProcesses(options: SystemProcessesOptions = {}): Processes {
  return new SystemProcesses(baseEnv(options.env ?? Deno.env.toObject()), options.log ?? nullLog);
}

class SystemProcesses implements Processes {
  readonly #base: Readonly<Record<string, string>>;
  readonly #log: Log;
  readonly #children = new Map<number, Child>();
  readonly #groups = new ControlGroups();

  constructor(base: Readonly<Record<string, string>>, log: Log) {
    this.#base = base;
    this.#log = log;
  }

  async start(spec: StartSpec): Promise<ProcessRef> {
    checkArgv(spec.argv);
    checkEnv(spec.env);
    checkTag(spec.tag);
    const { argv, cwd, stdout, stderr, outlives, pathFirst } = spec;
    const env: Record<string, string> = { ...this.#base, ...spec.env, [TAG]: spec.tag };
    if (pathFirst !== undefined) env["PATH"] = `${pathFirst}:${env["PATH"]}`;
    const { pid, startTime, status } = await launchProcess({
      argv,
      cwd,
      env,
      stdout,
      stderr,
      // To join one takes the kernel 15 ms or more, which is much for a job that may be over in as many.
      group: spec.outlives === undefined ? null : await this.#groups.of(spec.tag),
      ...(outlives === undefined ? {} : { outlives }),
    });
    const child: Child = {
      ref: { pid, startTime },
      exit: status.then(({ code, signal }) => {
        child.ended = true;
        return { code: signal === null ? code : null, signal };
      }),
      place: spec.place ?? null,
      ended: false,
    };
    this.#children.delete(pid);
    this.#children.set(pid, child);
    this.#forgetOld();
    return child.ref;
  }

  async wait(ref: ProcessRef): Promise<Exit> {
    const child = this.#own(ref);
    if (child !== null) return await child.exit;
    while (await this.alive(ref)) await awaitEnd(ref.pid);
    return { code: null, signal: null };
  }

  async alive(ref: ProcessRef): Promise<boolean> {
    const child = this.#own(ref);
    if (child !== null) return !child.ended;
    const found = await processAt(ref.pid);
    if (found === null || found.zombie) return false;
    if (ref.startTime === null || found.startTime === null) return true;
    return Math.abs(found.startTime - ref.startTime) <= SAME_START_SECONDS;
  }

  async stop(
    ref: ProcessRef,
    tag: string | null,
    graceMs: number,
    place?: string,
  ): Promise<void> {
    if (tag !== null) checkTag(tag);
    const child = this.#own(ref);
    const strays = await stopProcesses({
      group: await this.#isGroupOf(ref, child) ? ref.pid : null,
      // Nobody tells us when a process ends that we did not start: it takes a closer look each time.
      leaderEnded: () => child?.ended ?? true,
      tag,
      place: place ?? child?.place ?? null,
      since: ref.startTime,
      endGroup: await this.#endGroup(tag),
      graceMs,
    });
    if (strays.length > 0) this.#log.event("job.left_processes", { pid: ref.pid, strays });
  }

  /** What ends the control group of `tag`, or null when it can have none. */
  async #endGroup(tag: string | null): Promise<Stop["endGroup"]> {
    const group = tag === null ? null : await this.#groups.of(tag);
    return group === null ? null : () => this.#groups.end(group);
  }

  /** Whether the group that `ref` led is its still. A pid of unknown start may be anybody's by now: the tag tells then. */
  async #isGroupOf(ref: ProcessRef, child: Child | null): Promise<boolean> {
    if (child === null) return ref.startTime !== null && await this.alive(ref);
    if (!child.ended) return true;
    // The kernel gives a pid to nobody while its group lives, so a living leader is another one's.
    return isGroup(ref.pid) && !(await groupMembers(ref.pid)).some(({ pid }) => pid === ref.pid);
  }

  async exec(spec: ExecSpec): Promise<ExecResult> {
    checkArgv(spec.argv);
    checkEnv(spec.env ?? {});
    return await execHelper(spec, { ...this.#base, ...spec.env });
  }

  /** Drop the oldest of those that ended, so that a worker that runs for months stays small. */
  #forgetOld(): void {
    for (const [pid, child] of this.#children) {
      if (this.#children.size <= REMEMBERED) return;
      if (child.ended) this.#children.delete(pid);
    }
  }

  /** The child that `ref` names, if this process started it. */
  #own(ref: ProcessRef): Child | null {
    const child = this.#children.get(ref.pid);
    return child !== undefined && child.ref.startTime === ref.startTime ? child : null;
  }
}

/** Resolve once `pid` is nobody's, or it is time for a closer look at whose it is. */
async function awaitEnd(pid: number): Promise<void> {
  for (let ms = 0; ms < LOOK_MS && isProcess(pid); ms += POLL_MS) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function checkArgv(argv: readonly string[]): void {
  if (argv.length > 0 && argv.every((each) => !each.includes("\0"))) return;
  throw new SubletError("invalid_request", "a command needs a program, and no NUL in its words");
}
