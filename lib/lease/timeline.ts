/** @module What happened, as people and programs see it: recorded events, and the usual course that a lease's row tells. */

import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import type { EventRow } from "./events.ts";
import { isoTime } from "./time.ts";

/** Something that happened. `at` is ISO 8601 UTC. */
export interface EventView {
  /** Null for a lease's own course: queued, acquired, running, reported. */
  readonly id: number | null;
  readonly at: string;
  readonly event: string;
  readonly job: number | null;
  readonly lease: number | null;
  readonly worker: string | null;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A report that was refused by the fence. */
export interface Evidence {
  readonly at: string;
  readonly lease: number | null;
  readonly worker: string | null;
  readonly reason: string;
  /** The report itself, or its address in the CAS. */
  readonly report?: unknown;
  readonly report_cid?: string;
}

/** A lease's row, as far as it is shown. */
export type LeaseColumns = Row & {
  id: number;
  state: string;
  attempt: number;
  worker: string | null;
  created_at: number;
  acquired_at: number | null;
  started_at: number | null;
  renewed_at: number | null;
  revoked_at: number | null;
  ended_at: number | null;
  receipt: string | null;
};

/** How many recorded events of a job are shown: the newest. */
const MAX_EVENTS = 200;
const MAX_LIST = 1000;

/** The order of what happened to one lease at one millisecond. */
const RANKS: Readonly<Record<string, number>> = {
  retried: 0,
  queued: 1,
  acquired: 2,
  running: 3,
  reported: 5,
  stale_report: 7,
  dead: 8,
  cancelled: 8,
};
const OTHERS = 4;

/** What happened to a job with these leases, oldest first. */
export async function eventsOf(
  tx: Tx,
  job: number,
  leases: readonly LeaseColumns[],
): Promise<EventView[]> {
  const rows = await tx.all<EventRow>(
    `SELECT id, at, event, job_id, lease, worker, fields FROM lease_events
     WHERE job_id = ? ORDER BY id DESC LIMIT ?`,
    [job, MAX_EVENTS],
  );
  const all = [
    ...rows.map((row) => ({ ...eventView(row), ms: row.at })),
    ...leases.flatMap((lease) => courseOf(job, lease)),
  ];
  const rank = (event: string) => RANKS[event] ?? OTHERS;
  all.sort((a, b) =>
    a.ms - b.ms || (a.lease ?? 0) - (b.lease ?? 0) || rank(a.event) - rank(b.event) ||
    (a.id ?? 0) - (b.id ?? 0)
  );
  return all.map(({ ms: _, ...view }) => view);
}

function courseOf(job: number, row: LeaseColumns): (EventView & { ms: number })[] {
  const happened = (event: string, ms: number | null, fields: Record<string, unknown> = {}) => {
    const worker = event === "queued" ? null : row.worker;
    return ms === null
      ? []
      : [{ id: null, at: isoTime(ms), ms, event, job, lease: row.id, worker, fields }];
  };
  return [
    ...happened("queued", row.created_at, { attempt: row.attempt }),
    ...happened("acquired", row.acquired_at),
    ...happened("running", row.started_at),
    ...happened("reported", row.state === "reported" ? row.ended_at : null),
  ];
}

/** The stale reports of a job, oldest first, whole. */
export async function evidence(core: Core, job: number): Promise<Evidence[]> {
  const rows = await core.db.read((tx) =>
    tx.all<EventRow>(
      `SELECT id, at, event, job_id, lease, worker, fields FROM lease_events
       WHERE job_id = ? AND event = 'stale_report' ORDER BY id LIMIT ?`,
      [job, MAX_EVENTS],
    )
  );
  return rows.map((row) => ({
    reason: "",
    ...JSON.parse(row.fields ?? "{}"),
    at: isoTime(row.at),
    lease: row.lease,
    worker: row.worker,
  }));
}

/** Recorded events after `after`, oldest first, at most `limit`: a feed. */
export async function listEvents(core: Core, after: number, limit: number): Promise<EventView[]> {
  const rows = await core.db.read((tx) =>
    tx.all<EventRow>(
      `SELECT id, at, event, job_id, lease, worker, fields FROM lease_events
       WHERE id > ? ORDER BY id LIMIT ?`,
      [after, Math.min(Math.max(1, limit), MAX_LIST)],
    )
  );
  return rows.map(eventView);
}

function eventView(row: EventRow): EventView {
  const { report, ...fields } = JSON.parse(row.fields ?? "{}");
  return {
    id: row.id,
    at: isoTime(row.at),
    event: row.event,
    job: row.job_id,
    lease: row.lease,
    worker: row.worker,
    // The report itself can be large: `evidence` has it.
    fields: report === undefined ? fields : { ...fields, report: "kept" },
  };
}
