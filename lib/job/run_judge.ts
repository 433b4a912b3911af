/** @module What a run of an evaluate command came to. */

import { isError, messageOf, openBeneath } from "../home/mod.ts";
import type { Ended } from "./run_command.ts";
import { tailOf } from "./run_logs.ts";
import { MetricReader, missingMetrics, type Printed } from "./run_metrics.ts";
import { readUnits } from "./run_units.ts";
import type { EvaluationJob, Sample } from "./shapes.ts";

/** Characters of stderr that an error holds. */
const STDERR = 500;
/** Ends that somebody else may have caused: such a run is tried once more. */
const STRANGERS: ReadonlySet<string> = new Set(["SIGHUP", "SIGINT", "SIGTERM", "SIGKILL"]);
const SIGNALS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
};

/** Where a run left what it printed. */
export interface RunFiles {
  /** The directory of the job, which paths are beneath. */
  readonly root: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly units: string;
}

/** The error of a run that `stop` ended, or kept from beginning. */
export function stopped(stop: AbortSignal): string {
  return `it was stopped: ${messageOf(stop.reason)}`;
}

/** A run that could not run. */
export function notRun(error: string): Sample {
  return { metrics: {}, seconds: 0, error, units: {} };
}

/** Whether somebody other than us killed the process, which is no fault of its own. */
export function killedByStranger({ cause, exit }: Ended): boolean {
  return cause === "exit" && exit.signal !== null && STRANGERS.has(exit.signal);
}

/**
 * The sample of a run that has ended. A failed one keeps the metrics that it printed; the checks of section "evaluate"
 * in order: how it ended, metrics that are missing, units, inputs.
 */
export async function judge(
  ended: Ended,
  files: RunFiles,
  { required, timeout }: Pick<EvaluationJob, "required" | "timeout">,
  stop: AbortSignal,
  changed: string | null,
): Promise<Sample> {
  const printed = await readPrinted(files, required);
  let units: Sample["units"] = {};
  let error = await whyFailed(ended, files, timeout, stop) ?? missingMetrics(printed, required);
  if (error === null) {
    try {
      units = await readUnits(files.root, files.units, printed.metrics);
    } catch (failure) {
      if (!isError(failure, "invalid_body")) throw failure;
      error = failure.message;
    }
  }
  if (changed !== null) error = error === null ? changed : `${error}; ${changed}`;
  return {
    metrics: Object.fromEntries(printed.metrics),
    seconds: ended.seconds,
    error,
    units: error === null ? units : {},
  };
}

async function readPrinted(files: RunFiles, required: readonly string[]): Promise<Printed> {
  const reader = new MetricReader(required);
  try {
    await using file = await openBeneath(files.root, files.stdout, { what: "stdout" });
    for await (const chunk of file.stream()) reader.push(chunk);
  } catch (error) {
    // A command may remove or replace the file of its own output: it printed nothing then.
    if (!isError(error, "not_found", "unsafe_path")) throw error;
    return { metrics: new Map(), malformed: [messageOf(error)] };
  }
  return reader.finish();
}

async function whyFailed(
  ended: Ended,
  files: RunFiles,
  timeout: number,
  stop: AbortSignal,
): Promise<string | null> {
  const { cause, exit, message } = ended;
  if (cause === "timeout") return `timeout after ${timeout} s`;
  if (cause === "output") return message;
  if (cause !== "exit") return stopped(stop);
  if (exit.code === 0) return null;
  const said = await lastWords(files);
  if (exit.signal !== null) {
    const number = SIGNALS[exit.signal];
    const code = number === undefined ? "" : ` (exit -${number})`;
    return `killed by ${exit.signal}${code}${said}`;
  }
  if (exit.code !== null) return `exit ${exit.code}${said}`;
  return `it ended, and nobody could tell how${said}`;
}

/** `: ` and the last characters of stderr, or nothing when there are none. */
async function lastWords(files: RunFiles): Promise<string> {
  const text = (await tailOf(files.root, files.stderr, 4 * STDERR + 4)).trimEnd();
  const said = [...text].slice(-STDERR).join("");
  return said === "" ? "" : `: ${said}`;
}
