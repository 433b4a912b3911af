/** @module The rows of prompts: what people told agents, and what became of it. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { PromptState } from "./agent_store.ts";
import { isoOrNull } from "./agent_store.ts";
import { iso } from "./evaluation_store.ts";
import { cleanText } from "./report_checks.ts";

/** Characters of a worker's answer that are kept. */
const MAX_ERROR = 2_000;
/** Prompts of one agent. */
const MAX_PROMPTS = 1_000;

/** A prompt, as the HTTP API answers it. */
export interface AgentPrompt {
  readonly prompt: number;
  readonly agent: number;
  readonly text: string;
  readonly state: PromptState;
  readonly error: string | null;
  /** Who sent it. */
  readonly actor: string;
  readonly at: string;
  readonly answered_at: string | null;
}

interface PromptRow extends Row {
  id: number;
  agent: number;
  text: string;
  state: PromptState;
  error: string | null;
  actor: string;
  at: number;
  answered_at: number | null;
}

const COLUMNS = "id, agent, text, state, error, actor, at, answered_at";

/** Store a prompt; its id. Throws `conflict` for an agent that got more than it may. */
export async function insertPrompt(
  tx: Tx,
  prompt: { readonly agent: number; readonly text: string; readonly actor: string },
  state: "waiting" | "sent" | "queued",
  now: number,
): Promise<number> {
  const { agent, text, actor } = prompt;
  const count = await tx.get<Row & { n: number }>(
    "SELECT count(*) AS n FROM agent_prompts WHERE agent = ?",
    [agent],
  );
  if ((count?.n ?? 0) >= MAX_PROMPTS) {
    throw new SubletError("conflict", `agent ${agent} got ${MAX_PROMPTS} prompts: start another`);
  }
  const row = await tx.get<Row & { id: number }>(
    `INSERT INTO agent_prompts (agent, text, state, actor, at) VALUES (?, ?, ?, ?, ?)
     RETURNING id`,
    [agent, text, state, actor, now],
  );
  if (row === null) throw new SubletError("internal", "the prompt was not stored");
  return row.id;
}

/** The prompts of an agent, oldest first. */
export async function promptsOf(tx: Tx, agent: number): Promise<AgentPrompt[]> {
  const rows = await tx.all<PromptRow>(
    `SELECT ${COLUMNS} FROM agent_prompts WHERE agent = ? ORDER BY id`,
    [agent],
  );
  return rows.map(fromRow);
}

/** A prompt, or null. */
export async function readPrompt(tx: Tx, id: number): Promise<AgentPrompt | null> {
  const row = await tx.get<PromptRow>(`SELECT ${COLUMNS} FROM agent_prompts WHERE id = ?`, [id]);
  return row === null ? null : fromRow(row);
}

/** Prompts that waited for the agent to start, oldest first: they count as sent from now on. */
export async function sendWaiting(
  tx: Tx,
  agent: number,
): Promise<{ id: number; text: string }[]> {
  const rows = await tx.all<Row & { id: number; text: string }>(
    "SELECT id, text FROM agent_prompts WHERE agent = ? AND state = 'waiting' ORDER BY id",
    [agent],
  );
  await tx.run("UPDATE agent_prompts SET state = 'sent' WHERE agent = ? AND state = 'waiting'", [
    agent,
  ]);
  return rows;
}

/** A worker says what became of a prompt that was sent: null is queued. Once; the first answer stays. */
export async function answeredPrompt(
  tx: Tx,
  id: number,
  error: string | null,
  now: number,
): Promise<void> {
  await tx.run(
    `UPDATE agent_prompts SET state = ?, error = ?, answered_at = ? WHERE id = ? AND state = 'sent'`,
    [
      error === null ? "queued" : "refused",
      error === null ? null : cleanText(error, MAX_ERROR),
      now,
      id,
    ],
  );
}

/**
 * The agent has ended: it read the prompts `read`, and every other one that is not answered is unread. Ids of other
 * agents' prompts change nothing.
 */
export async function settlePrompts(
  tx: Tx,
  agent: number,
  read: readonly number[],
  now: number,
): Promise<void> {
  for (const id of new Set(read)) {
    await tx.run(
      `UPDATE agent_prompts SET state = 'read', error = NULL, answered_at = ?
       WHERE id = ? AND agent = ? AND state IN ('sent', 'queued')`,
      [now, id, agent],
    );
  }
  await tx.run(
    `UPDATE agent_prompts SET state = 'unread', answered_at = ?
     WHERE agent = ? AND state IN ('waiting', 'sent', 'queued')`,
    [now, agent],
  );
}

function fromRow({ id, at, answered_at, ...rest }: PromptRow): AgentPrompt {
  return { ...rest, prompt: id, at: iso(at), answered_at: isoOrNull(answered_at) };
}
