/** @module The port `Processes` on this machine, without a supervisor: small, for tests of what uses it. Linux. */

import type {
  ExecResult,
  ExecSpec,
  Exit,
  Processes,
  ProcessRef,
  StartSpec,
} from "../../lib/home/mod.ts";
import { exec } from "./exec.ts";
import { until } from "./mod.ts";

/** What every process of a job gets, beside its own. */
const BASE = { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin", LANG: "C.UTF-8" };

/** The fields of `/proc/<pid>/stat` after the name: state first. Null: no such process. */
function stat(pid: number): string[] | null {
  try {
    const text = Deno.readTextFileSync(`/proc/${pid}/stat`);
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return null;
  }
}

function startOf(pid: number): number | null {
  const ticks = stat(pid)?.[19];
  return ticks === undefined ? null : Number(ticks);
}

/** The processes that live, by pid, with their group and environment. */
function living(): { pid: number; group: number; environ: string }[] {
  const found: { pid: number; group: number; environ: string }[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    const pid = Number(name);
    const fields = Number.isInteger(pid) ? stat(pid) : null;
    if (fields === null || fields[0] === "Z" || fields[0] === "X") continue;
    let environ = "";
    try {
      environ = Deno.readTextFileSync(`/proc/${pid}/environ`);
    } catch { /* Another user's, or gone. */ }
    found.push({ pid, group: Number(fields[2]), environ });
  }
  return found;
}

function kill(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch { /* It is gone. */ }
}

/** Processes that were started here. */
export class TestProcesses implements Processes {
  readonly #exits = new Map<number, Promise<Exit>>();
  /** Until it resolves no end of a process is told, as if whoever waits were gone. */
  deaf: Promise<void> = Promise.resolve();
  /** Every start, in order. */
  readonly started: StartSpec[] = [];
  /** Every helper's argv, in order. */
  readonly helpers: (readonly string[])[] = [];

  async start(spec: StartSpec): Promise<ProcessRef> {
    this.started.push(spec);
    const quoted = [spec.stdout, spec.stderr];
    // The shell opens the log files and becomes the command, so the pid is the command's.
    const child = new Deno.Command("/bin/sh", {
      args: [
        "-c",
        'out=$1 err=$2; shift 2; exec "$@" >"$out" 2>"$err"',
        "sh",
        ...quoted,
        ...spec.argv,
      ],
      cwd: spec.cwd,
      clearEnv: true,
      env: { ...BASE, ...spec.env, SUBLET_PROCESS_TAG: spec.tag },
      stdin: "null",
      stdout: "null",
      stderr: "null",
      detached: true,
    }).spawn();
    const startTime = startOf(child.pid);
    this.#exits.set(
      child.pid,
      child.status.then(({ code, signal }) => ({ code: signal === null ? code : null, signal })),
    );
    const program = spec.argv[0] ?? "";
    if (program.includes("/") && !(await Deno.stat(program).catch(() => null))) {
      await child.status;
      throw new Error(`${program}: no such program`);
    }
    return { pid: child.pid, startTime };
  }

  async wait(ref: ProcessRef): Promise<Exit> {
    const exit = await this.#exits.get(ref.pid) ?? { code: null, signal: null };
    await this.deaf;
    return exit;
  }

  alive(ref: ProcessRef): Promise<boolean> {
    const state = stat(ref.pid)?.[0];
    const lives = state !== undefined && state !== "Z" &&
      (ref.startTime === null || startOf(ref.pid) === ref.startTime);
    return Promise.resolve(lives);
  }

  async stop(ref: ProcessRef, tag: string | null, graceMs: number): Promise<void> {
    const left = () =>
      living().filter(({ group, environ }) =>
        group === ref.pid ||
        (tag !== null && environ.split("\0").includes(`SUBLET_PROCESS_TAG=${tag}`))
      );
    const deadline = performance.now() + graceMs;
    for (const { pid } of left()) kill(pid, "SIGTERM");
    while (left().length > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await until("every process of the job is gone", () => {
      const rest = left();
      for (const { pid } of rest) kill(pid, "SIGKILL");
      return rest.length === 0;
    });
  }

  exec(spec: ExecSpec): Promise<ExecResult> {
    this.helpers.push(spec.argv);
    return exec(spec);
  }
}

/** The pids of living processes whose environment has `tag`. */
export function tagged(tag: string): number[] {
  return living().filter(({ environ }) => environ.split("\0").includes(`SUBLET_PROCESS_TAG=${tag}`))
    .map(({ pid }) => pid);
}
