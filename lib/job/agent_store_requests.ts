/** @module The rows of agents: asking for one, and handing it to the queue. */

import type { Row, Tx } from "../store/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { AgentJob } from "./agent_shapes.ts";
import type { Requires } from "./job_queue.ts";

/** An agent to make. */
export interface NewAgent {
  readonly campaign: number;
  readonly role: string;
  readonly harness: string;
  readonly model: string | null;
  readonly effort: string | null;
  readonly prompt: string;
  readonly base: string;
  readonly subject: string;
  /** The manifest of the shared workspace. */
  readonly workspace: string | null;
  readonly timeout: number;
  readonly sessionId: string | null;
  readonly resumes: number | null;
  readonly resumable: boolean;
  /** Of its session's file. */
  readonly format: string | null;
  readonly requires: Requires;
  /** What the request gives it: variable to the secret's name. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly priority: number;
  readonly dedup: string | null;
  /** Its job, for the agent's id. */
  readonly job: (id: number) => AgentJob;
}

/** An agent that has no job yet. */
export interface UnsubmittedAgent {
  readonly id: number;
  readonly campaign: number;
  readonly requires: string;
  readonly priority: number;
  readonly timeout: number;
  /** Its job, as JSON text. */
  readonly text: string;
}

/** Make the row of an agent, with its job's JSON for {@linkcode unsubmittedAgents}. */
export async function insertAgent(
  tx: Tx,
  wanted: NewAgent,
  now: number,
): Promise<UnsubmittedAgent> {
  const { campaign, priority, timeout } = wanted;
  const requires = JSON.stringify(wanted.requires);
  const row = await tx.get<Row & { id: number }>(
    `INSERT INTO agents
       (campaign, role, harness, model, effort, prompt, base, subject, workspace, timeout, resumes,
        resumable, format, requires, secrets, priority, dedup, session_id, requested_at, usage_before)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
       (SELECT coalesce(usage, usage_before) FROM agents WHERE id = ?)) RETURNING id`,
    [
      campaign,
      wanted.role,
      wanted.harness,
      wanted.model,
      wanted.effort,
      wanted.prompt,
      wanted.base,
      wanted.subject,
      wanted.workspace,
      timeout,
      wanted.resumes,
      wanted.resumable ? 1 : 0,
      wanted.format,
      requires,
      JSON.stringify(wanted.secrets),
      priority,
      wanted.dedup,
      wanted.sessionId,
      now,
      wanted.resumes,
    ],
  );
  if (row === null) throw new SubletError("internal", "the agent was not stored");
  const text = JSON.stringify(wanted.job(row.id));
  await tx.run("UPDATE agents SET job_text = ? WHERE id = ?", [text, row.id]);
  return { id: row.id, campaign, requires, priority, timeout, text };
}

/**
 * The agent of the request that `dedup` names in a campaign, or null. Throws `conflict` when it asked for something
 * else.
 */
export async function agentRequestedBefore(
  tx: Tx,
  campaign: number,
  dedup: string,
  asked: { readonly prompt: string; readonly harness: string; readonly base: string },
): Promise<number | null> {
  const row = await tx.get<
    Row & { id: number; prompt: string; harness: string; base: string }
  >(
    "SELECT id, prompt, harness, base FROM agents WHERE campaign = ? AND dedup = ? ORDER BY id",
    [campaign, dedup],
  );
  if (row === null) return null;
  const same = row.prompt === asked.prompt && row.harness === asked.harness &&
    row.base === asked.base;
  if (same) return row.id;
  throw new SubletError(
    "conflict",
    `the request ${
      JSON.stringify(dedup)
    } asked for something else before: give this one another key`,
  );
}

/** Agents that wait without a job: the server died before it submitted them. */
export async function unsubmittedAgents(tx: Tx, limit: number): Promise<UnsubmittedAgent[]> {
  return await tx.all<Row & UnsubmittedAgent>(
    `SELECT id, campaign, requires, priority, timeout, job_text AS text FROM agents
     WHERE job IS NULL AND state = 'waiting' ORDER BY id LIMIT ?`,
    [limit],
  );
}

/** Whether agent `id` still has no job. */
export async function isAgentUnsubmitted(tx: Tx, id: number): Promise<boolean> {
  const row = await tx.get(
    "SELECT 1 AS one FROM agents WHERE id = ? AND job IS NULL AND state = 'waiting'",
    [id],
  );
  return row !== null;
}

/** Agent `id` is job `job` now. */
export async function setAgentJob(tx: Tx, id: number, job: number): Promise<void> {
  await tx.run("UPDATE agents SET job = ?, job_text = NULL WHERE id = ?", [job, id]);
}

/** Remove those of `ids` that still have no job: asking for them failed. */
export async function forgetUnsubmittedAgents(tx: Tx, ids: readonly number[]): Promise<void> {
  for (const id of ids) {
    await tx.run(
      "DELETE FROM agents WHERE id = ? AND job IS NULL AND state = 'waiting'",
      [id],
    );
  }
}
