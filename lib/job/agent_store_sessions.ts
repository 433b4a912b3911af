/** @module The rows of agents: their sessions, while they run and for whoever goes on with them. */

import type { Row, Tx } from "../store/mod.ts";
import type { AgentUsage } from "./agent_shapes.ts";
import type { AgentState, Landed } from "./agent_store.ts";

/** The session of a running agent, as far as its parts tell. */
export async function noteSession(
  tx: Tx,
  id: number,
  session:
    | { readonly id: string | null; readonly name: string; readonly cwd: string | null }
    | null,
  usage: AgentUsage | null,
): Promise<void> {
  await tx.run(
    `UPDATE agents SET session_id = coalesce(?, session_id), session = coalesce(?, session),
       usage = coalesce(?, usage)
     WHERE id = ? AND state IN ('waiting', 'running')`,
    [
      session?.id ?? null,
      session === null
        ? null
        : JSON.stringify({ file: null, name: session.name, cwd: session.cwd }),
      usage === null ? null : JSON.stringify(usage),
      id,
    ],
  );
}

/** What a session leaves for a later prompt. */
export interface ResumableAgent {
  readonly id: number;
  readonly campaign: number;
  readonly role: string;
  readonly harness: string;
  readonly model: string | null;
  readonly effort: string | null;
  readonly base: string;
  readonly state: AgentState;
  readonly timeout: number;
  readonly resumable: boolean;
  readonly requires: string;
  readonly secrets: string;
  readonly priority: number;
  readonly session_id: string | null;
  readonly session: { file: string | null; name: string; cwd: string | null } | null;
  readonly landed: Landed | null;
  readonly lease: number | null;
  readonly job: number | null;
}

/** The session's file of agent `id`, or null; its `file` is null before the report. */
export async function agentSessionOf(
  tx: Tx,
  id: number,
): Promise<ResumableAgent["session"]> {
  const row = await tx.get<Row & { session: string | null }>(
    "SELECT session FROM agents WHERE id = ?",
    [id],
  );
  return row === null || row.session === null ? null : JSON.parse(row.session);
}

/** Agent `id` as a later prompt finds it, or null. */
export async function readResumable(tx: Tx, id: number): Promise<ResumableAgent | null> {
  const row = await tx.get<
    & Row
    & Omit<ResumableAgent, "session" | "landed" | "resumable">
    & { session: string | null; landed: string | null; resumable: number }
  >(
    `SELECT id, campaign, role, harness, model, effort, base, state, timeout, resumable, requires,
       secrets, priority, session_id, session, landed, lease, job FROM agents WHERE id = ?`,
    [id],
  );
  if (row === null) return null;
  const { session, landed, resumable } = row;
  return {
    ...row,
    resumable: resumable === 1,
    session: session === null ? null : JSON.parse(session),
    landed: landed === null ? null : JSON.parse(landed),
  };
}
