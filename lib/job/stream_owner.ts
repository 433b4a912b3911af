/** @module Whose a job's streams are: an agent's or an evaluation's, with the files of its report. */

import type { Tx } from "../store/mod.ts";
import { agentEnded, agentOfJob } from "./agent_store.ts";
import { agentSessionOf } from "./agent_store_sessions.ts";
import { evaluationOfJob, hasEnded } from "./evaluation_store.ts";
import { SESSION_STREAM } from "./stream_shapes.ts";
import type { StreamOwner } from "./streams.ts";

/** What owns the streams of `job`, or null when nothing here does. */
export async function streamOwner(tx: Tx, job: number): Promise<StreamOwner | null> {
  const evaluation = await evaluationOfJob(tx, job);
  if (evaluation !== null) return { over: hasEnded(evaluation.state), files: evaluation.files };
  const agent = await agentOfJob(tx, job);
  if (agent === null) return null;
  const over = agentEnded(agent.state) || agent.state === "landing";
  const session = await agentSessionOf(tx, agent.agent);
  const file = session?.file ?? null;
  return { over, files: file === null ? agent.files : { ...agent.files, [SESSION_STREAM]: file } };
}
