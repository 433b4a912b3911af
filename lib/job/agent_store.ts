/** @module The rows of agents: what one is, and reading it. */

import type { Row, Tx, Value } from "../store/mod.ts";
import type { AgentBranch, AgentUsage } from "./agent_shapes.ts";
import { usageSince } from "./agent_usage.ts";
import { iso } from "./evaluation_store.ts";

/** States of an agent; the last four are its end. `landing`: its report is taken, and its work is being put in place. */
export const AGENT_STATES = [
  "waiting",
  "running",
  "landing",
  "finished",
  "failed",
  "cancelled",
  "lost",
] as const;
/** A state of an agent. */
export type AgentState = (typeof AGENT_STATES)[number];

/** How a prompt can stand: `queued` is for the agent's next turn, the last three are its end. */
export const PROMPT_STATES = ["waiting", "sent", "queued", "read", "unread", "refused"] as const;
/** A state of a prompt. */
export type PromptState = (typeof PROMPT_STATES)[number];

/** What became of the files that an agent wrote in the shared workspace. */
export interface LandedWorkspace {
  readonly written: number;
  readonly removed: number;
  /** Paths whose file somebody else changed meanwhile: where the agent's is now. */
  readonly beside: Readonly<Record<string, string>>;
  /** Paths at which something is in the way: the address of the agent's file in the CAS. */
  readonly blocked: Readonly<Record<string, string>>;
  /** Paths that it removed and somebody else changed: they stay. */
  readonly kept: readonly string[];
}

/** What came back of an agent, where it belongs. */
export interface Landed {
  /** Newest version that it left. Null: none, or it could not be taken. */
  readonly head: string | null;
  /** The ref in the campaign's repository that keeps the head. */
  readonly ref: string | null;
  /** How many versions it has beyond its base, and the newest of them, newest first. */
  readonly commits: number;
  readonly versions: readonly { readonly revision: string; readonly subject: string }[];
  readonly branches: readonly (AgentBranch & { readonly ref: string })[];
  /** The bundle in the CAS that held them. */
  readonly blob: string | null;
  readonly left_out: readonly { readonly path: string; readonly reason: string }[];
  readonly left_out_count: number;
  readonly notes: readonly string[];
  readonly workspace: LandedWorkspace;
}

/** An agent, as the HTTP API answers it. Times are ISO 8601 UTC. */
export interface Agent {
  /** The lease engine's job; null for the moment before it is submitted. */
  readonly job: number | null;
  readonly agent: number;
  /** The campaign's name. */
  readonly campaign: string;
  readonly role: string;
  readonly harness: string;
  readonly model: string | null;
  readonly effort: string | null;
  readonly prompt: string;
  /** The revision that it starts from, and its subject. */
  readonly base: string;
  readonly subject: string;
  readonly state: AgentState;
  /** Seconds that it may run. */
  readonly timeout: number;
  /** The agent whose session it goes on with. */
  readonly resumes: number | null;
  readonly worker: string | null;
  readonly lease: number | null;
  readonly attempts: number;
  readonly session_id: string | null;
  /** Of its session: `claude`, `codex` or `pi`. Null: it keeps none that is known here. */
  readonly session_format: string | null;
  /** Its own tokens. */
  readonly usage: AgentUsage | null;
  /** Those of its whole session, with what agents used before whose session it goes on with. */
  readonly session_usage: AgentUsage | null;
  /** Seconds that it ran. */
  readonly seconds: number | null;
  readonly exit_code: number | null;
  /** Whether it was stopped because its time was over. */
  readonly timed_out: boolean;
  readonly changed: boolean | null;
  readonly error: string | null;
  /** Log files by path: the address of each. */
  readonly files: Readonly<Record<string, string>>;
  readonly landed: Landed | null;
  /** When something of it was last heard: what it wrote, or its start or end. */
  readonly active_at: string | null;
  readonly requested_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
}

/** Which agents a list holds. */
export interface AgentFilter {
  readonly campaign?: number;
  readonly state?: AgentState;
  /** Only those with a smaller id: lists go from new to old. */
  readonly before?: number;
  readonly limit: number;
}

interface AgentRow extends Row {
  id: number;
  job: number | null;
  campaign: string;
  role: string;
  harness: string;
  model: string | null;
  effort: string | null;
  prompt: string;
  base: string;
  subject: string;
  state: string;
  timeout: number;
  resumes: number | null;
  worker: string | null;
  lease: number | null;
  attempts: number;
  session_id: string | null;
  session_format: string | null;
  usage: string | null;
  usage_before: string | null;
  seconds: number | null;
  exit_code: number | null;
  timed_out: number;
  changed: number | null;
  error: string | null;
  files: string;
  landed: string | null;
  active_at: number | null;
  requested_at: number;
  started_at: number | null;
  ended_at: number | null;
}

const SELECT = `SELECT a.id, a.job, p.name AS campaign, a.role, a.harness, a.model, a.effort,
    a.prompt, a.base, a.subject, a.state, a.timeout, a.resumes, a.worker, a.lease, a.attempts,
    a.session_id, a.format AS session_format, a.usage, a.usage_before, a.seconds, a.exit_code, a.timed_out, a.changed, a.error, a.files, a.landed,
    a.requested_at, a.started_at, a.ended_at,
    coalesce(a.ended_at, (SELECT max(s.updated_at) FROM streams s WHERE s.lease = a.lease),
      a.started_at) AS active_at
  FROM agents a JOIN campaigns p ON p.id = a.campaign`;

/** Whether a state is an end. */
export function agentEnded(state: AgentState): boolean {
  return state !== "waiting" && state !== "running" && state !== "landing";
}

/** The agent `id`, or null. */
export async function readAgent(tx: Tx, id: number): Promise<Agent | null> {
  const row = await tx.get<AgentRow>(`${SELECT} WHERE a.id = ?`, [id]);
  return row === null ? null : fromRow(row);
}

/** The agent of a job, or null. */
export async function agentOfJob(tx: Tx, job: number): Promise<Agent | null> {
  const row = await tx.get<AgentRow>(`${SELECT} WHERE a.job = ?`, [job]);
  return row === null ? null : fromRow(row);
}

/** Agents from new to old. */
export async function listAgents(tx: Tx, filter: AgentFilter): Promise<Agent[]> {
  const conditions: string[] = [];
  const params: Value[] = [];
  const add = (condition: string, value: Value | undefined) => {
    if (value === undefined) return;
    conditions.push(condition);
    params.push(value);
  };
  add("a.campaign = ?", filter.campaign);
  add("a.state = ?", filter.state);
  add("a.id < ?", filter.before);
  const where = conditions.length === 0 ? "" : ` WHERE ${conditions.join(" AND ")}`;
  const rows = await tx.all<AgentRow>(`${SELECT}${where} ORDER BY a.id DESC LIMIT ?`, [
    ...params,
    filter.limit,
  ]);
  return rows.map(fromRow);
}

/** At most `limit` agents that run now, the longest first. */
export async function runningAgents(tx: Tx, limit: number): Promise<Agent[]> {
  const rows = await tx.all<AgentRow>(
    `${SELECT} WHERE a.state = 'running' ORDER BY a.id LIMIT ?`,
    [limit],
  );
  return rows.map(fromRow);
}

function fromRow(row: AgentRow): Agent {
  const { id, state, usage, usage_before: before, changed, files, landed, ...rest } = row;
  const session = usageIn(usage);
  return {
    ...rest,
    agent: id,
    state: state as AgentState,
    usage: usageSince(session, usageIn(before)),
    session_usage: session,
    timed_out: row.timed_out === 1,
    changed: changed === null ? null : changed === 1,
    files: JSON.parse(files),
    landed: landed === null ? null : JSON.parse(landed),
    active_at: isoOrNull(row.active_at),
    requested_at: iso(row.requested_at),
    started_at: isoOrNull(row.started_at),
    ended_at: isoOrNull(row.ended_at),
  };
}

function usageIn(text: string | null): AgentUsage | null {
  return text === null ? null : JSON.parse(text);
}

/** Milliseconds since 1970 as ISO 8601 UTC, or null. */
export function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : iso(ms);
}
