/** @module The rows of agents: what happens to one while its job runs, and how it ends. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx, Value } from "../store/mod.ts";
import type { AgentReport } from "./agent_shapes.ts";
import type { AgentState } from "./agent_store.ts";
import type { Holder } from "./evaluation_store_results.ts";
import { cleanText } from "./report_checks.ts";
import { SESSION_STREAM } from "./stream_shapes.ts";
import { forgetStreams } from "./stream_store.ts";

/** Characters of an error that are kept. */
export const MAX_ERROR = 8_000;
/** Characters of a session's id. */
const MAX_SESSION = 1_024;

async function stateOf(tx: Tx, id: number): Promise<AgentState | null> {
  const row = await tx.get<Row & { state: AgentState }>("SELECT state FROM agents WHERE id = ?", [
    id,
  ]);
  return row?.state ?? null;
}

/** Throws `stale_lease` unless the agent waits or runs. */
async function checkOpen(tx: Tx, id: number): Promise<void> {
  const state = await stateOf(tx, id);
  if (state === "waiting" || state === "running") return;
  const why = state === null ? "is not known" : `is ${state} already`;
  throw new SubletError("stale_lease", `agent ${id} ${why}: drop this job`);
}

/** Set columns of an agent. A lease that it did not have before is one more attempt. */
async function update(
  tx: Tx,
  id: number,
  holder: Holder,
  columns: Readonly<Record<string, Value>>,
): Promise<void> {
  const names = Object.keys(columns);
  const lease = holder.worker === null ? null : holder.lease;
  await tx.run(
    `UPDATE agents SET
       attempts = attempts + CASE WHEN ? IS NOT NULL AND lease IS NOT ? THEN 1 ELSE 0 END,
       lease = coalesce(?, lease), ${names.map((name) => `${name} = ?`).join(", ")}
     WHERE id = ?`,
    [lease, lease, lease, ...names.map((name) => columns[name] ?? null), id],
  );
}

/** A worker runs it. Throws `stale_lease` when it ended already. */
export async function startAgent(tx: Tx, id: number, holder: Holder, now: number): Promise<void> {
  await checkOpen(tx, id);
  await update(tx, id, holder, { state: "running", worker: holder.worker });
  await tx.run("UPDATE agents SET started_at = coalesce(started_at, ?) WHERE id = ?", [now, id]);
}

/** Whether the agent has run: what it did then must not be done twice. */
export async function hasRun(tx: Tx, id: number): Promise<boolean> {
  const row = await tx.get<Row & { started_at: number | null }>(
    "SELECT started_at FROM agents WHERE id = ?",
    [id],
  );
  return row !== null && row.started_at !== null;
}

/** An attempt was lost before it ran: it waits again. Nothing changes when it ended already. */
export async function loseAgent(tx: Tx, id: number, holder: Holder): Promise<void> {
  const state = await stateOf(tx, id);
  if (state !== "waiting" && state !== "running") return;
  await update(tx, id, holder, { state: "waiting", worker: null });
}

/** It ended without a report. Nothing changes when it ended already. */
export async function endAgent(
  tx: Tx,
  id: number,
  holder: Holder,
  end: { readonly state: "lost" | "cancelled"; readonly error: string },
  now: number,
): Promise<void> {
  const state = await stateOf(tx, id);
  if (state !== "waiting" && state !== "running") return;
  await update(tx, id, holder, {
    state: end.state,
    error: cleanText(end.error, MAX_ERROR),
    ended_at: now,
    ...(holder.worker === null ? {} : { worker: holder.worker }),
  });
}

/** Its job is queued again: an agent that never ran waits again, empty. Throws `conflict`. */
export async function reopenAgent(tx: Tx, id: number): Promise<void> {
  const reopened = await tx.run(
    `UPDATE agents SET state = 'waiting', worker = NULL, session = NULL, usage = NULL, files = '{}',
       seconds = NULL, exit_code = NULL, timed_out = 0, changed = NULL, error = NULL, report = NULL, landed = NULL,
       started_at = NULL, ended_at = NULL
     WHERE id = ? AND state IN ('failed', 'cancelled', 'lost') AND landed IS NULL
       AND started_at IS NULL`,
    [id],
  );
  if (reopened > 0) return;
  throw new SubletError(
    "conflict",
    `agent ${id} has run, and what it did is not to be done twice: go on with 'sublet prompt', or start another`,
  );
}

/**
 * Take a worker's report: the agent is `landing` until {@linkcode landAgent}, also when it failed or was cancelled,
 * since its work is to land all the same. Throws `stale_lease` when it ended already.
 */
export async function recordAgentReport(
  tx: Tx,
  id: number,
  holder: Holder,
  report: AgentReport,
): Promise<void> {
  await checkOpen(tx, id);
  await takeReport(tx, id, holder, report);
}

/**
 * Take a report that came too late, from the lease that the agent had last. Throws `conflict` unless the agent was lost
 * or cancelled, and nothing of it landed.
 */
export async function recordLateReport(
  tx: Tx,
  id: number,
  holder: Holder,
  report: AgentReport,
): Promise<void> {
  const row = await tx.get<Row & { state: AgentState; lease: number | null }>(
    `SELECT state, lease FROM agents
     WHERE id = ? AND state IN ('lost', 'cancelled') AND landed IS NULL`,
    [id],
  );
  if (row === null || row.lease !== holder.lease) {
    throw new SubletError(
      "conflict",
      `agent ${id} was not lost, or what it left is taken already: see 'sublet job show'`,
    );
  }
  await takeReport(tx, id, holder, report);
}

async function takeReport(
  tx: Tx,
  id: number,
  holder: Holder,
  report: AgentReport,
): Promise<void> {
  const ran = report.kind === "agent_finished" ? report : null;
  await update(tx, id, holder, {
    state: "landing",
    ended_at: null,
    worker: holder.worker,
    files: JSON.stringify(report.files),
    seconds: secondsOf(report),
    exit_code: ran?.process.exit_code ?? null,
    timed_out: ran?.process.status === "timed_out" ? 1 : 0,
    changed: ran === null ? 0 : ran.changed ? 1 : 0,
    error: errorOf(report, holder),
    report: JSON.stringify({
      ...report,
      revoked: holder.revoked ?? null,
      fault: errorOf(report, holder),
    }),
  });
  const session = ran?.session == null ? [] : [SESSION_STREAM];
  await forgetStreams(tx, holder.lease, [...Object.keys(report.files), ...session]);
  if (ran === null) return;
  await tx.run(
    `UPDATE agents SET session_id = coalesce(?, session_id), session = coalesce(?, session),
       usage = coalesce(?, usage)
     WHERE id = ?`,
    [
      ran.session_id === null ? null : cleanText(ran.session_id, MAX_SESSION),
      ran.session === null ? null : JSON.stringify(ran.session),
      ran.usage === null ? null : JSON.stringify(ran.usage),
      id,
    ],
  );
}

function secondsOf(report: AgentReport): number {
  return report.kind === "agent_finished" ? report.process.seconds : report.seconds;
}

/** Why an agent is no success, or null. */
function errorOf(report: AgentReport, { revoked }: Holder): string | null {
  const text = revoked ?? faultOf(report);
  return text === null ? null : cleanText(text, MAX_ERROR);
}

function faultOf(report: AgentReport): string | null {
  if (report.kind === "agent_not_started") return `it did not start: ${report.reason}`;
  const { status, error, exit_code: code } = report.process;
  if (status === "timed_out") return error ?? "it ran out of time";
  return error ?? (code === 0 ? null : code === null ? "it was killed" : `it exited with ${code}`);
}
