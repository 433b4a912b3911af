/** @module The rows of agents: what of a report is to be put in place, and that it was. */

import type { Row, Tx } from "../store/mod.ts";
import type { AgentFinished } from "./agent_shapes.ts";
import type { Landed } from "./agent_store.ts";
import { MAX_ERROR } from "./agent_store_results.ts";
import { cleanText } from "./report_checks.ts";

/** The report of an agent that is `landing`, or null. */
export interface LandingReport {
  readonly id: number;
  readonly campaign: number;
  readonly role: string;
  readonly base: string;
  readonly workspace: string | null;
  /** Why it is no success. */
  readonly fault: string | null;
  /** Why it was cancelled. */
  readonly revoked: string | null;
  /** Null: it did not start. */
  readonly report: AgentFinished | null;
  readonly job: number | null;
  readonly lease: number | null;
}

/** What of agent `id` is to land, or null when it is not `landing`. */
export async function readLanding(tx: Tx, id: number): Promise<LandingReport | null> {
  const row = await tx.get<
    Row & {
      id: number;
      campaign: number;
      role: string;
      base: string;
      workspace: string | null;
      report: string;
      job: number | null;
      lease: number | null;
    }
  >(
    `SELECT id, campaign, role, base, workspace, report, job, lease FROM agents
     WHERE id = ? AND state = 'landing'`,
    [id],
  );
  if (row === null) return null;
  // It was judged when it came.
  const { revoked, fault, ...report } = JSON.parse(row.report);
  return { ...row, revoked, fault, report: report.kind === "agent_finished" ? report : null };
}

/** Agents whose work is to land. */
export async function landingIds(tx: Tx): Promise<number[]> {
  const rows = await tx.all<Row & { id: number }>(
    "SELECT id FROM agents WHERE state = 'landing' ORDER BY id",
  );
  return rows.map(({ id }) => id);
}

/** Its work is where it belongs: the agent has ended. */
export async function landAgent(
  tx: Tx,
  id: number,
  end: {
    readonly state: "finished" | "failed" | "cancelled";
    readonly error: string | null;
    readonly landed: Landed | null;
  },
  now: number,
): Promise<void> {
  await tx.run(
    `UPDATE agents SET state = ?, error = ?, landed = ?, report = NULL, ended_at = ?
     WHERE id = ? AND state = 'landing'`,
    [
      end.state,
      end.error === null ? null : cleanText(end.error, MAX_ERROR),
      end.landed === null ? null : JSON.stringify(end.landed),
      now,
      id,
    ],
  );
}

/** Say why the work of an agent has not landed yet. */
export async function noteLanding(tx: Tx, id: number, why: string): Promise<void> {
  await tx.run("UPDATE agents SET error = ? WHERE id = ? AND state = 'landing'", [
    cleanText(why, MAX_ERROR),
    id,
  ]);
}
