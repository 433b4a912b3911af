/** @module How an agent's process ended, in the words of its report. */

import { constants } from "node:os";
import { type Exit, messageOf } from "../home/mod.ts";
import type { AgentExit } from "./agent_shapes.ts";
import type { Ending } from "./run_watch.ts";

/** Characters of stderr in a message. */
const SAID = 500;

/** What ended an agent. */
export interface Ended {
  readonly cause: Exclude<Ending["cause"], "leave" | "stale">;
  /** What to say of `output` and `stop`. */
  readonly message: string | null;
  /** As it was seen. */
  readonly exit: Exit;
  /** As it was written down: for an agent that ended while nobody watched it. */
  readonly code: number | null;
  /** From its start. */
  readonly seconds: number;
  /** The end of what it printed to stderr. */
  readonly stderr: string;
}

/** The number of a signal, from its name. */
function numberOf(signal: string): number | null {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return numbers[signal] ?? null;
}

/** A shell's exit code of a command, or of one that a signal killed, as Python tells it: negative for a signal. */
export function exitCodeOf(exit: Exit, code: number | null): number | null {
  if (exit.signal !== null) {
    const number = numberOf(exit.signal);
    return number === null ? null : -number;
  }
  const found = exit.code ?? code;
  return found !== null && found > 128 && found < 128 + 65 ? 128 - found : found;
}

/** The report of it. */
export function agentExitOf(ended: Ended): AgentExit {
  const { cause, seconds } = ended;
  const code = exitCodeOf(ended.exit, ended.code);
  if (cause === "timeout") {
    return { status: "timed_out", seconds, exit_code: null, error: "its time was over" };
  }
  return { status: "exited", seconds, exit_code: code, error: errorOf(ended, code) };
}

function errorOf({ cause, message, stderr }: Ended, code: number | null): string | null {
  if (cause === "stop") return `stopped: ${message ?? "it was asked to"}`;
  if (cause === "output") return message;
  if (code === 0) return null;
  if (code === null) return "it ended while nobody watched it, so its exit code is not known";
  const said = stderr.trim().slice(-SAID);
  const kernels = code === -9 ? ", as the kernel does when memory runs out" : "";
  const what = code < 0 ? `killed by signal ${-code}${kernels}` : `exit ${code}`;
  return said === "" ? what : `${what}: ${said}`;
}

/** Why `stop` was aborted. */
export function reasonOf(stop: AbortSignal): string {
  return messageOf(stop.reason);
}
