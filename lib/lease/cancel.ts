/** @module Cancelling a job, and trying one again. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { endJob, endLease } from "./ending.ts";
import { record } from "./events.ts";
import { type LeaseRow, newestLease, refOf } from "./fence.ts";
import { mail } from "./mail.ts";
import { queueLease } from "./submit.ts";

/**
 * What a cancel came to: the job ended at once, its worker was told to stop it (it still reports), or it had ended
 * before.
 */
export type Cancelled = "cancelled" | "revoked" | "ended";

type JobState = Row & { state: string };

/** Cancel a job in the caller's transaction. Throws `not_found`. Repeatable. */
export async function cancelJob(
  core: Core,
  tx: Tx,
  job: number,
  reason: string,
): Promise<Cancelled> {
  const lease = await leaseOf(tx, job);
  if (await stateOf(tx, job) !== "open") return "ended";
  if (lease.state === "queued") {
    await dropQueued(core, tx, lease, reason);
    return "cancelled";
  }
  if (lease.revoked_at !== null) return "revoked";
  const at = core.wall();
  await tx.run("UPDATE leases SET revoked_at = ? WHERE id = ?", [at, lease.id]);
  await tx.run("UPDATE jobs SET reason = ? WHERE id = ?", [reason, job]);
  await record(tx, at, {
    event: "revoked",
    job,
    lease: lease.id,
    worker: lease.worker,
    fields: { reason },
  });
  if (lease.worker !== null) {
    await mail(core, tx, lease.worker, { kind: "revoke", lease: lease.id });
  }
  tx.onCommit(() => core.watchers.changed(job));
  return "revoked";
}

async function dropQueued(core: Core, tx: Tx, lease: LeaseRow, reason: string): Promise<void> {
  const row = await tx.get<Row & { ready: number }>("SELECT ready FROM leases WHERE id = ?", [
    lease.id,
  ]);
  await endLease(core, tx, lease, "cancelled", { cancelled: reason });
  await endJob(core, tx, lease, "cancelled", reason);
  tx.onCommit(() => {
    if (row?.ready === 1) core.queue.add(lease.lane, lease.campaign, -1);
    else core.delays.remove(lease.id);
  });
}

/** Queue a job again that is dead or cancelled, with all its attempts. Throws `not_found` and `conflict`. */
export async function retryJob(core: Core, tx: Tx, job: number): Promise<number> {
  const lease = await leaseOf(tx, job);
  const state = await stateOf(tx, job);
  if (state !== "dead" && state !== "cancelled") {
    throw new SubletError(
      "conflict",
      `job ${job} is ${state}: only a dead or cancelled one is tried again. For another result ask for a new job`,
    );
  }
  const other = await tx.get<Row & { id: number }>(
    "SELECT id FROM jobs WHERE kind = ? AND key = ? AND ended_at IS NULL",
    [lease.kind, lease.key],
  );
  if (other !== null) {
    throw new SubletError("conflict", `job ${other.id} does the same as job ${job}, and is open`);
  }
  await tx.run(
    "UPDATE jobs SET state = 'open', reason = NULL, ended_at = NULL, host_faults = 0 WHERE id = ?",
    [
      job,
    ],
  );
  const next = await queueLease(core, tx, {
    job,
    attempt: 1,
    slots: lease.slots,
    lane: lease.lane,
    campaign: lease.campaign,
    priority: lease.priority,
    delayMs: 0,
  });
  await record(tx, core.wall(), { event: "retried", job, lease: next });
  const { revoked: _, ...ref } = refOf(lease);
  await core.kinds.get(lease.kind)?.retried?.(tx, { ...ref, lease: next, worker: null });
  return next;
}

async function stateOf(tx: Tx, job: number): Promise<string> {
  const row = await tx.get<JobState>("SELECT state FROM jobs WHERE id = ?", [job]);
  return row?.state ?? "gone";
}

async function leaseOf(tx: Tx, job: number): Promise<LeaseRow> {
  const lease = await newestLease(tx, job);
  if (lease === null) throw new SubletError("not_found", `there is no job ${job}`);
  return lease;
}
