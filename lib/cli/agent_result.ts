/** @module What an agent came to, for people and as an exit code. */

import { EXIT } from "../home/mod.ts";
import type { ApiClient } from "./api_client.ts";
import { number } from "./output.ts";
import { Patience } from "./patience.ts";
import { agentEnded, type AgentView } from "./views.ts";

/** The agent once it ended. A server that restarts is waited for. */
export async function waitForAgent(api: ApiClient, id: number): Promise<AgentView> {
  const patience = new Patience();
  while (true) {
    const now = await patience.ask(() => api.call<AgentView>("GET", `/v1/agents/${id}?wait=25`));
    if (now !== null && agentEnded(now)) return now;
  }
}

/** How long an agent is waited for before it is asked why it waits, seconds: most start at once. */
const FIRST_LOOK_SECONDS = 2;
const LOOK_SECONDS = 10;

/** Tell `say` why the agent has not begun, as long as it has not. */
export async function tellWaits(
  api: ApiClient,
  { agent: id, job }: AgentView,
  say: (why: string) => void,
): Promise<void> {
  const patience = new Patience();
  let said: string | null = null;
  for (let seconds = FIRST_LOOK_SECONDS;; seconds = LOOK_SECONDS) {
    const now = await patience.ask(() =>
      api.call<AgentView>("GET", `/v1/agents/${id}?wait=${seconds}`)
    );
    if (now === null) continue;
    if (now.state !== "waiting") return;
    const found = await patience.ask(() =>
      api.call<{ waits: string | null }>("GET", `/v1/jobs/${job}`)
    );
    const why = found?.waits ?? null;
    if (why !== null && why !== said) say(why);
    said = why ?? said;
  }
}

/** The exit code of an agent that ended, and what to tell about it. */
export function agentResult(agent: AgentView): { exit: number; lines: string[] } {
  const { state, timed_out: late } = agent;
  const exit = state === "finished"
    ? EXIT.ok
    : state === "cancelled" || late
    ? EXIT.cancelled
    : EXIT.failed;
  return { exit, lines: agentRows(agent).map(([key, value]) => `${key}: ${value}`) };
}

/** What there is to say of an agent: names and values. */
export function agentRows(agent: AgentView): [string, string][] {
  const { landed, usage, session_usage: whole, resumes, error, seconds } = agent;
  const rows: [string, string][] = [[`agent ${agent.agent}`, agent.state]];
  if (error !== null) rows.push(["error", error]);
  if (seconds !== null) rows.push(["ran", `${number(Math.round(seconds * 1000) / 1000)} s`]);
  if (usage !== null) rows.push(["tokens", `${usage.total} in ${count(usage.turns, "turn")}`]);
  if (whole !== null && resumes !== null) {
    const turns = count(whole.turns, "turn");
    rows.push([
      "session tokens",
      `${whole.total} in ${turns}, with those before agent ${agent.agent}`,
    ]);
  }
  if (landed === null) return rows;
  if (landed.ref !== null && landed.commits > 0) {
    rows.push(["work", `${count(landed.commits, "commit")}: git merge ${landed.ref}`]);
  }
  for (const { name, ref } of landed.branches) rows.push(["also", `${name}: ${ref}`]);
  for (const { path, reason } of landed.left_out) rows.push(["not saved", `${path}: ${reason}`]);
  const more = landed.left_out_count - landed.left_out.length;
  if (more > 0) rows.push(["not saved", `${count(more, "more path")}`]);
  for (const note of landed.notes) rows.push(["note", note]);
  const { written, removed, beside, blocked, kept } = landed.workspace;
  if (written + removed > 0) rows.push(["workspace", `${written} written, ${removed} removed`]);
  for (const [path, other] of Object.entries(beside)) {
    rows.push(["conflict", `${path} was changed meanwhile: the agent's is ${other}`]);
  }
  for (const [path, cid] of Object.entries(blocked)) {
    rows.push(["conflict", `${path} is blocked: sublet cas get ${cid}`]);
  }
  for (const path of kept) rows.push(["conflict", `${path} was changed meanwhile, and stays`]);
  return rows;
}

function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}
