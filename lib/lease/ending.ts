/** @module How a lease ends without a report, and what becomes of its job: queued again, dead or cancelled. */

import { type Ids, SubletError } from "../home/mod.ts";
import type { Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { record } from "./events.ts";
import { type LeaseRow, newestLease, refOf } from "./fence.ts";
import type { JobEnd } from "./kind.ts";
import { queueLease } from "./submit.ts";

/** Delay before a second retry, how it grows, and the longest. */
const SECOND_RETRY_MS = 5000;
const GROWTH = 4;
const LONGEST_MS = 300_000;
/** Delay before the first retry of a job that its worker gave up: nothing has passed yet. */
const FIRST_RETRY_MS = 1000;

/** Who says that a lease is lost: the server, its worker, or its worker for a fault of its machine. */
export type LostBy = "silence" | "worker" | "machine";
/** How many faults of machines are none of a job's attempts: it may be the job that fills their disks. */
export const MAX_HOST_FAULTS = 10;

/** Milliseconds until a job that lost its attempt number `attempt` may be taken again, with jitter. */
export function retryDelay(attempt: number, by: LostBy, ids: Ids): number {
  const base = attempt > 1
    ? Math.min(SECOND_RETRY_MS * GROWTH ** (attempt - 2), LONGEST_MS)
    : by !== "silence"
    ? FIRST_RETRY_MS
    : 0;
  return base * (0.5 + ids.random());
}

/** A live lease is lost: it is over, and its job is queued again, or it ends. */
export async function loseLease(
  core: Core,
  tx: Tx,
  lease: LeaseRow,
  by: LostBy,
  reason: string,
): Promise<void> {
  await endLease(core, tx, lease, "expired", { lost: reason });
  await record(tx, core.wall(), {
    event: by === "silence" ? "expired" : "lost",
    job: lease.job_id,
    lease: lease.id,
    worker: lease.worker,
    fields: { attempt: lease.attempt, reason, ...(by === "machine" ? { host_fault: true } : {}) },
  });
  if (lease.revoked_at !== null) {
    return await endJob(core, tx, lease, "cancelled", lease.reason ?? reason);
  }
  const kind = core.kinds.get(lease.kind);
  const excused = by === "machine" && lease.host_faults < MAX_HOST_FAULTS;
  const isLast = !excused && lease.attempt >= lease.max_attempts ||
    await kind?.mayRepeat?.(tx, refOf(lease)) === false;
  if (isLast) {
    const times = lease.attempt === 1 ? "once" : `${lease.attempt} times`;
    return await endJob(core, tx, lease, "dead", `lost ${times}, the last time because ${reason}`);
  }
  const faults = lease.host_faults + 1;
  if (excused) {
    await tx.run("UPDATE jobs SET host_faults = ? WHERE id = ?", [faults, lease.job_id]);
  }
  await queueLease(core, tx, {
    job: lease.job_id,
    attempt: excused ? lease.attempt : lease.attempt + 1,
    slots: lease.slots,
    lane: lease.lane,
    campaign: lease.campaign,
    priority: lease.priority,
    delayMs: retryDelay(excused ? faults : lease.attempt, by, core.ids),
  });
  await kind?.lost(tx, refOf(lease), reason);
}

/** The lease is over without a report. `receipt` says how. */
export async function endLease(
  core: Core,
  tx: Tx,
  lease: LeaseRow,
  state: "expired" | "cancelled",
  receipt: Readonly<Record<string, unknown>>,
): Promise<void> {
  await tx.run(
    `UPDATE leases SET state = ?, ended_at = ?, ready = 0, ready_at = NULL, receipt = ?,
       renewed_at = CASE WHEN acquired_at IS NULL THEN NULL ELSE ? END
     WHERE id = ?`,
    [state, core.wall(), JSON.stringify(receipt), core.renewedAt(lease.id), lease.id],
  );
  tx.onCommit(() => core.ended(lease.id, lease.job_id));
}

/** The job ends without a report. */
export async function endJob(
  core: Core,
  tx: Tx,
  lease: LeaseRow,
  end: JobEnd,
  reason: string,
): Promise<void> {
  const at = core.wall();
  await tx.run("UPDATE jobs SET state = ?, reason = ?, ended_at = ? WHERE id = ?", [
    end,
    reason,
    at,
    lease.job_id,
  ]);
  await record(tx, at, {
    event: end,
    job: lease.job_id,
    lease: lease.id,
    worker: lease.worker,
    fields: { reason },
  });
  await core.kinds.get(lease.kind)?.ended(tx, refOf(lease), end, reason);
  tx.onCommit(() => core.watchers.changed(lease.job_id));
}

/**
 * What the last lease of a dead job left was taken after all: the job is reported, and no attempt of it is due any more.
 * One that is not dead stays as it is: somebody cancelled it.
 */
export async function recoverJob(core: Core, tx: Tx, job: number): Promise<void> {
  const lease = await newestLease(tx, job);
  if (lease === null) throw new SubletError("not_found", `there is no job ${job}`);
  const at = core.wall();
  await tx.run(
    "UPDATE jobs SET state = 'reported', reason = NULL, ended_at = ? WHERE id = ? AND state = 'dead'",
    [at, job],
  );
  await record(tx, at, {
    event: "recovered",
    job,
    lease: lease.id,
    worker: lease.worker,
    fields: lease.reason === null ? {} : { was: lease.reason },
  });
  tx.onCommit(() => core.watchers.changed(job));
}
