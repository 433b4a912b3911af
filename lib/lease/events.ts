/**
 * @module What happened to jobs, leases and workers beyond the usual course of a lease, which its own row tells: one row
 * for each event, in the transaction that made it happen.
 */

import type { Row, Tx } from "../store/mod.ts";

/** Every event that is recorded. */
export type EventName =
  | "stale_report"
  | "lost"
  | "expired"
  | "unreachable"
  | "revoked"
  | "cancelled"
  | "dead"
  | "retried"
  | "recovered"
  | "joined"
  | "left"
  | "drained"
  | "paused"
  | "resumed"
  | "prompted"
  | "absent"
  | "mass_silence";

/** An event to record. */
export interface NewEvent {
  readonly event: EventName;
  readonly job?: number | null;
  readonly lease?: number | null;
  readonly worker?: string | null;
  /** Request id of a stale report: the same one is kept once. */
  readonly request?: string;
  readonly fields?: Readonly<Record<string, unknown>>;
}

/** A recorded event. */
export type EventRow = Row & {
  id: number;
  at: number;
  event: string;
  job_id: number | null;
  lease: number | null;
  worker: string | null;
  fields: string | null;
};

/** How many events are kept, and how many stale reports beyond those. */
export const KEPT_EVENTS = 1_000_000;
export const KEPT_STALE_REPORTS = 10_000;
const PRUNED_AT_ONCE = 1000;
/** How many stale reports of one job are kept, and how many of leases that never were. */
export const STALE_REPORTS_OF_A_JOB = 50;
const STALE_REPORTS_OF_NONE = 1000;

/** Record `event`, at `at` (wall milliseconds). Stale reports beyond those that are kept are not. */
export async function record(tx: Tx, at: number, event: NewEvent): Promise<void> {
  if (event.event === "stale_report" && !await hasRoom(tx, event.job ?? null)) return;
  await tx.run(
    `INSERT INTO lease_events (at, event, job_id, lease, worker, request, fields)
     VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
    [
      at,
      event.event,
      event.job ?? null,
      event.lease ?? null,
      event.worker ?? null,
      event.request ?? null,
      event.fields === undefined ? null : JSON.stringify(event.fields),
    ],
  );
}

/** Whether one more stale report of `job` is kept. A worker that sends them without end must not push others out. */
async function hasRoom(tx: Tx, job: number | null): Promise<boolean> {
  const whose = job === null ? "job_id IS NULL" : "job_id = ?";
  const row = await tx.get<Row & { kept: number }>(
    `SELECT count(*) AS kept FROM lease_events WHERE event = 'stale_report' AND ${whose}`,
    job === null ? [] : [job],
  );
  const most = job === null ? STALE_REPORTS_OF_NONE : STALE_REPORTS_OF_A_JOB;
  return (row?.kept ?? 0) < most;
}

/** Delete a bounded number of the oldest events beyond those that are kept; how many. */
export async function pruneEvents(
  tx: Tx,
  kept = KEPT_EVENTS,
  keptStale = KEPT_STALE_REPORTS,
): Promise<number> {
  const ends = await tx.get<{ newest: number | null }>(
    "SELECT max(id) AS newest FROM lease_events",
  );
  const deleted = await tx.run(
    `DELETE FROM lease_events WHERE id IN (
       SELECT id FROM lease_events WHERE id <= ? AND event <> 'stale_report' ORDER BY id LIMIT ?)`,
    [(ends?.newest ?? 0) - kept, PRUNED_AT_ONCE],
  );
  const stale = await tx.get<{ id: number }>(
    `SELECT id FROM lease_events WHERE event = 'stale_report' ORDER BY id DESC LIMIT 1 OFFSET ?`,
    [keptStale],
  );
  if (stale === null) return deleted;
  return deleted + await tx.run(
    `DELETE FROM lease_events WHERE id IN (
       SELECT id FROM lease_events WHERE event = 'stale_report' AND id <= ? ORDER BY id LIMIT ?)`,
    [stale.id, PRUNED_AT_ONCE],
  );
}
