/** @module Watching a process of a job until something ends the watch, and stopping all that the job started. */

import { type Exit, messageOf, type ProcessRef, SubletError } from "../home/mod.ts";
import { watchOutput } from "./run_logs.ts";
import type { Site } from "./runner.ts";

/** What ended a watch. */
export interface Ending {
  /**
   * `exit`: by itself. `timeout`, `stop` (asked for), `output` (it printed too much) and `stale` (its lease is): by us.
   * `leave`: it goes on, and we do not watch it any longer.
   */
  readonly cause: "exit" | "timeout" | "stop" | "output" | "stale" | "leave";
  /** What to say of `output`. */
  readonly message?: string;
}

/** What a watch goes by. */
export interface Watch {
  readonly exited: Promise<Exit>;
  /** Whether the server knows that it runs: false for a stale lease. */
  readonly started: Promise<boolean>;
  readonly stop: AbortSignal;
  readonly leave?: AbortSignal;
  /** Milliseconds that are left to it. */
  readonly ms: number;
  /** Absolute paths of what it prints to, and the most bytes of one. */
  readonly logs: readonly string[];
  readonly maxOutput: number;
}

/** Resolve with whatever comes first. `over` aborts once nobody waits any more. */
export function firstEnding(site: Site, watch: Watch, over: AbortSignal): Promise<Ending> {
  const { clock } = site;
  return new Promise((resolve, reject) => {
    const stop = () => resolve({ cause: "stop" });
    const leave = () => resolve({ cause: "leave" });
    const cancel = clock.after(Math.max(0, watch.ms), () => resolve({ cause: "timeout" }));
    over.addEventListener("abort", () => {
      cancel();
      watch.stop.removeEventListener("abort", stop);
      watch.leave?.removeEventListener("abort", leave);
    });
    watch.stop.addEventListener("abort", stop);
    watch.leave?.addEventListener("abort", leave);
    if (watch.stop.aborted) stop();
    if (watch.leave?.aborted === true) leave();
    watch.exited.then(() => resolve({ cause: "exit" }), reject);
    watch.started.then((live) => live || resolve({ cause: "stale" }), reject);
    watchOutput(watch.logs, watch.maxOutput, clock, over).then(
      (message) => message === null || resolve({ cause: "output", message }),
      reject,
    );
  });
}

/** How often a stop that fails is tried, a second apart. */
const STOP_TRIES = 10;

/** What is a job's. */
export interface Owned {
  readonly tag: string | null;
  /** Milliseconds between TERM and KILL. */
  readonly graceMs: number;
  /** The job's directory: processes that stand in it are its. */
  readonly place: string;
}

/** Stop the process and everything that it left: also after a clean exit, when a child may go on in the background. */
export async function stopAll(site: Site, process: ProcessRef, owned: Owned): Promise<void> {
  for (let attempt = 1;; attempt++) {
    try {
      return await site.processes.stop(process, owned.tag, owned.graceMs, owned.place);
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
