/** @module One process of a job, from its start until nothing of it is left. */

import { type Exit, messageOf, type ProcessRef, SubletError } from "../home/mod.ts";
import { watchOutput } from "./run_logs.ts";
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
  /**
   * `exit`: by itself. `timeout`, `stop` (asked for), `output` (it printed too much) and `stale` (its lease is): by us.
   */
  readonly cause: "exit" | "timeout" | "stop" | "output" | "stale";
  readonly exit: Exit;
  /** From its start to its end, or to when we stopped it. */
  readonly seconds: number;
  /** What to say of `output`. */
  readonly message: string | null;
}

/** How often a stop that fails is tried, a second apart. */
const STOP_TRIES = 10;

/** Something that ends the wait for the process. */
type Ending = { readonly cause: Ended["cause"]; readonly message?: string };

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
    const { cause, message } = await firstEnding(site, control, command, exited, started, over);
    const seconds = (site.clock.monotonic() - begin) / 1000;
    await stopAll(site, process, command);
    const exit = await exited;
    if (!await started) return { cause: "stale", exit, seconds, message: null };
    return { cause, exit, seconds, message: message ?? null };
  } catch (error) {
    await stopAll(site, process, command);
    throw error;
  } finally {
    over.abort();
  }
}

function firstEnding(
  site: Site,
  control: JobControl,
  command: Command,
  exited: Promise<Exit>,
  started: Promise<boolean>,
  over: AbortController,
): Promise<Ending> {
  const { clock } = site;
  return new Promise((resolve, reject) => {
    const stop = () => resolve({ cause: "stop" });
    const cancel = clock.after(command.timeout * 1000, () => resolve({ cause: "timeout" }));
    over.signal.addEventListener("abort", () => {
      cancel();
      control.stop.removeEventListener("abort", stop);
    });
    control.stop.addEventListener("abort", stop);
    if (control.stop.aborted) stop();
    exited.then(() => resolve({ cause: "exit" }), reject);
    started.then((live) => live || resolve({ cause: "stale" }), reject);
    const logs = [command.stdout, command.stderr];
    watchOutput(logs, command.maxOutput, clock, over.signal).then(
      (message) => message === null || resolve({ cause: "output", message }),
      reject,
    );
  });
}

/** Stop the process and everything that it left: also after a clean exit, when a child may go on in the background. */
async function stopAll(site: Site, process: ProcessRef, command: Command): Promise<void> {
  for (let attempt = 1;; attempt++) {
    try {
      return await site.processes.stop(process, command.tag, command.graceMs, command.place);
    } catch (error) {
      site.log.event("job.stop_failed", { pid: process.pid, attempt, error: messageOf(error) });
      if (attempt < STOP_TRIES) await site.clock.sleep(1000);
      else {
        throw new SubletError(
          "failed",
          `process ${process.pid} and its children could not be stopped: ${
            messageOf(error)
          }. End them by hand`,
          { cause: error },
        );
      }
    }
  }
}
