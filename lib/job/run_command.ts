/** @module One process of a job, from its start until nothing of it is left. */

import type { Exit } from "../home/mod.ts";
import { type Ending, firstEnding, stopAll } from "./run_watch.ts";
import type { JobControl, Site } from "./runner.ts";

/** A process to run. */
export interface Command {
  readonly argv: readonly string[];
  /** Absolute. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdout: string;
  readonly stderr: string;
  readonly tag: string;
  /** The job's directory: processes that stand in it are its. */
  readonly place: string;
  /** Seconds from its start. */
  readonly timeout: number;
  /** Milliseconds between TERM and KILL. */
  readonly graceMs: number;
  /** A log with more bytes than this stops it. */
  readonly maxOutput: number;
}

/** How it ended. */
export interface Ended {
  readonly cause: Exclude<Ending["cause"], "leave">;
  readonly exit: Exit;
  /** From its start to its end, or to when we stopped it. */
  readonly seconds: number;
  /** What to say of `output`. */
  readonly message: string | null;
}

/**
 * Run `command` to its end, and stop whatever it left. Rejects with `failed` when it cannot start, and with what
 * `control.started` rejected with.
 */
export async function runCommand(
  site: Site,
  control: JobControl,
  command: Command,
): Promise<Ended> {
  const begin = site.clock.monotonic();
  const { argv, cwd, env, stdout, stderr, tag, place } = command;
  const process = await site.processes.start({ argv, cwd, env, stdout, stderr, tag, place });
  const exited = site.processes.wait(process);
  const started = control.started({ pgid: process.pid, start_time: process.startTime }, null);
  const over = new AbortController();
  try {
    const { cause, message } = await firstEnding(site, {
      exited,
      started,
      stop: control.stop,
      ms: command.timeout * 1000,
      logs: [stdout, stderr],
      maxOutput: command.maxOutput,
    }, over.signal);
    const seconds = (site.clock.monotonic() - begin) / 1000;
    await stopAll(site, process, command);
    const exit = await exited;
    // It is not told to leave.
    if (!await started || cause === "leave") {
      return { cause: "stale", exit, seconds, message: null };
    }
    return { cause, exit, seconds, message: message ?? null };
  } catch (error) {
    await stopAll(site, process, command);
    throw error;
  } finally {
    over.abort();
  }
}
