/** @module Queueing jobs: the job's row and its first lease, or the next one of a job that was lost. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import type { Slots } from "./gates.ts";
import type { Submission, Submitted } from "./kind.ts";
import { laneOf } from "./lanes.ts";

/** How often a job may be leased when it does not say. */
export const DEFAULT_ATTEMPTS = 3;

/** Queue a job in the caller's transaction. Workers hear of it after the commit. */
export async function submit(core: Core, tx: Tx, job: Submission): Promise<Submitted> {
  const slots = core.slotsOf(job.kind);
  if (slots === null) {
    throw new SubletError("invalid_request", `no kind of job is called ${job.kind}`);
  }
  const { priority = 0, maxAttempts = DEFAULT_ATTEMPTS } = job;
  if (!Number.isSafeInteger(priority) || !Number.isSafeInteger(maxAttempts) || maxAttempts < 1) {
    throw new SubletError(
      "invalid_request",
      `a job's priority (${priority}) is a whole number, and its attempts (${maxAttempts}) at least 1`,
    );
  }
  const timeoutMs = timeoutOf(job);
  const open = await openJob(tx, job.kind, job.key);
  if (open !== null) return open;
  const lane = laneOf(job.kind, job.requires);
  const at = core.wall();
  const row = await tx.get<Row & { id: number }>(
    `INSERT INTO jobs (kind, key, job_cid, campaign, repo, lane, priority, max_attempts, created_at, timeout_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
    [
      job.kind,
      job.key,
      job.jobCid,
      job.campaign,
      job.repo,
      lane,
      priority,
      maxAttempts,
      at,
      timeoutMs,
    ],
  );
  const lease = await queueLease(core, tx, {
    job: idOf(row),
    attempt: 1,
    slots,
    lane,
    campaign: job.campaign ?? 0,
    priority,
    delayMs: 0,
  });
  return { job: idOf(row), lease, created: true };
}

function timeoutOf({ timeoutSeconds }: Submission): number | null {
  if (timeoutSeconds === undefined) return null;
  const ms = Math.ceil(timeoutSeconds * 1000);
  if (Number.isSafeInteger(ms) && ms > 0) return ms;
  throw new SubletError(
    "invalid_request",
    `a job's timeout (${timeoutSeconds}) is a number of seconds above 0`,
  );
}

async function openJob(tx: Tx, kind: string, key: string): Promise<Submitted | null> {
  const row = await tx.get<Row & { id: number; lease: number }>(
    `SELECT j.id, (SELECT max(l.id) FROM leases l WHERE l.job_id = j.id) AS lease
     FROM jobs j WHERE j.kind = ? AND j.key = ? AND j.ended_at IS NULL`,
    [kind, key],
  );
  return row === null ? null : { job: row.id, lease: row.lease, created: false };
}

/** A lease to queue. */
export interface NextLease {
  readonly job: number;
  readonly attempt: number;
  readonly slots: Slots;
  readonly lane: string;
  readonly campaign: number;
  readonly priority: number;
  /** Milliseconds until it may be taken. */
  readonly delayMs: number;
}

/** Queue the job's next lease, whose id is larger than that of any other; its id. */
export async function queueLease(core: Core, tx: Tx, next: NextLease): Promise<number> {
  const at = core.wall();
  const waits = next.delayMs > 0;
  // Ids come from memory, which has left those behind that were given out before a backup was restored.
  const lease = ++core.newestLease;
  await tx.run(
    `INSERT INTO leases (id, job_id, attempt, slots, lane, campaign, priority, ready, ready_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      lease,
      next.job,
      next.attempt,
      next.slots,
      next.lane,
      next.campaign,
      next.priority,
      waits ? 0 : 1,
      waits ? at + Math.ceil(next.delayMs) : null,
      at,
    ],
  );
  tx.onCommit(() => {
    if (waits) core.delays.add(lease, core.clock.monotonic() + next.delayMs);
    else core.takeable(next.lane, next.campaign);
    core.watchers.changed(next.job);
  });
  return lease;
}

function idOf(row: { id: number } | null): number {
  if (row === null) throw new SubletError("internal", "an insert returned no row");
  return row.id;
}
