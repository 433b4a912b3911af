/** @module Bringing an agent's work back however long that takes, and what becomes of it when it cannot be. */

import { isHostFault, messageOf } from "../home/mod.ts";
import type { AgentContext } from "./agent_context.ts";
import { exitCodeOf } from "./agent_exit.ts";
import type { AgentFinished } from "./agent_shapes.ts";
import { isAway } from "./run_patience.ts";

/** How long a worker that is about to end tries, before it leaves that to its next process. */
const ENDING_MS = 30_000;
/** How long a disk that is full, or another fault of this machine, is waited for. */
const HOST_MS = 30 * 60_000;
const FIRST_WAIT_MS = 1_000;
const MAX_WAIT_MS = 30_000;
/** Faults that no wait cures. */
const MAX_FAULTS = 5;

/**
 * Do `work` until it is done: nothing of the agent may be lost because the store was away, or the disk full for a while.
 * `left`: the worker ends, and its next process is to do it. `failed`: it goes on failing.
 */
export async function patiently(
  { site, control }: AgentContext,
  work: () => Promise<AgentFinished>,
): Promise<{ readonly report: AgentFinished } | "left" | { readonly failed: unknown }> {
  const { clock, log } = site;
  const began = clock.monotonic();
  let ending = Infinity;
  let faults = 0;
  for (let wait = FIRST_WAIT_MS;; wait = Math.min(wait * 2, MAX_WAIT_MS)) {
    try {
      return { report: await work() };
    } catch (error) {
      log.event("agent.not_finished", { lease: control.lease, error: messageOf(error) });
      const host = isHostFault(error);
      if (!host && !isAway(error)) faults++;
      const full = host && clock.monotonic() - began >= HOST_MS;
      if (full || faults >= MAX_FAULTS) return { failed: error };
    }
    if (control.ending?.aborted === true || control.leave?.aborted === true) {
      ending = Math.min(ending, clock.monotonic() + ENDING_MS);
      if (clock.monotonic() >= ending) return "left";
      await clock.sleep(FIRST_WAIT_MS);
    } else await clock.sleep(wait, control.ending);
  }
}

/** What is known of an agent whose work stays where it is. */
export interface Known {
  readonly sessionId: string | null;
  readonly seconds: number;
  /** The last one. */
  readonly turn: number;
}

/** Keep the agent's directory, because of `reason`: the report that says so. */
export async function keptReport(
  { site, control, place, messages, job, keep }: AgentContext,
  { sessionId, seconds, turn }: Known,
  reason: string,
): Promise<AgentFinished> {
  site.log.event("agent.kept", { lease: control.lease, place: place.root, error: reason });
  keep();
  try {
    await place.keep(reason);
  } catch (error) {
    // This process removes nothing of it; to the next one it is work that was not brought back.
    site.log.event("agent.not_marked", { lease: control.lease, error: messageOf(error) });
  }
  return {
    kind: "agent_finished",
    process: {
      status: "exited",
      seconds,
      exit_code: exitCodeOf({ code: null, signal: null }, await place.exitCode(turn)),
      error:
        `its work could not be brought back, and is kept at ${place.root} on its worker: ${reason}`,
    },
    session_id: sessionId ?? job.session_id,
    usage: null,
    changed: true,
    work: null,
    files: {},
    ...messages.ids(),
    workspace: {},
    session: null,
    branches: [],
    left_out: [],
    left_out_count: 0,
    notes: [],
  };
}
