/** @module The fence: what one lease may still do, judged in the transaction that does it. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Slots } from "./gates.ts";
import type { JobRef } from "./kind.ts";
import type { WorkerCaller } from "./member.ts";

/** A lease with its job. */
export type LeaseRow = Row & {
  id: number;
  job_id: number;
  state: "queued" | "acquired" | "running" | "reported" | "expired" | "cancelled";
  attempt: number;
  slots: Slots;
  lane: string;
  campaign: number;
  priority: number;
  worker: string | null;
  incarnation: string | null;
  report_request: string | null;
  receipt: string | null;
  revoked_at: number | null;
  kind: string;
  key: string;
  max_attempts: number;
  host_faults: number;
  reason: string | null;
  newest: number;
};

const LEASE = `
  SELECT l.id, l.job_id, l.state, l.attempt, l.slots, l.lane, l.campaign, l.priority, l.worker, l.incarnation,
    l.report_request, l.receipt, l.revoked_at, j.kind, j.key, j.max_attempts, j.host_faults, j.reason,
    (SELECT max(n.id) FROM leases n WHERE n.job_id = l.job_id) AS newest
  FROM leases l JOIN jobs j ON j.id = l.job_id`;
const BY_ID = `${LEASE} WHERE l.id = ?`;
const NEWEST = `${LEASE} WHERE l.job_id = ? ORDER BY l.id DESC LIMIT 1`;

/**
 * The fence in SQL, for an update of `leases`: the lease is live, the caller's, and its job's newest. Its parameters are
 * those of {@linkcode heldBy}.
 */
export const HELD_BY = `id = ? AND worker = ? AND incarnation IS NOT DISTINCT FROM ?
  AND acquired_at IS NOT NULL AND ended_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM leases n WHERE n.job_id = leases.job_id AND n.id > leases.id)`;

/** The parameters of {@linkcode HELD_BY}. */
export function heldBy(caller: WorkerCaller, lease: number): (string | number | null)[] {
  return [lease, caller.name, caller.incarnation];
}

/** The lease `id`, or null. */
export function leaseById(tx: Tx, id: number): Promise<LeaseRow | null> {
  return tx.get<LeaseRow>(BY_ID, [id]);
}

/** The newest lease of a job, or null. */
export function newestLease(tx: Tx, job: number): Promise<LeaseRow | null> {
  return tx.get<LeaseRow>(NEWEST, [job]);
}

/** Whether `lease` is taken and not over. */
export function isLive(lease: LeaseRow): boolean {
  return lease.state === "acquired" || lease.state === "running";
}

/** Why `caller` may not act on the lease, or null when it may: it is live, the caller's, and its job's newest. */
export function fault(lease: LeaseRow | null, caller: WorkerCaller): string | null {
  if (lease === null) return "there is no such lease";
  if (lease.worker !== caller.name) return "it is not this worker's";
  if (lease.incarnation !== caller.incarnation) return "another process of this worker holds it";
  if (!isLive(lease)) return `it is ${lease.state}`;
  if (lease.newest !== lease.id) return `its job has the newer lease ${lease.newest}`;
  return null;
}

/** The lease `id`, on which `caller` may act. Throws `stale_lease` when it may not. */
export async function fenced(tx: Tx, caller: WorkerCaller, id: number): Promise<LeaseRow> {
  const lease = await leaseById(tx, id);
  const why = fault(lease, caller);
  if (lease === null || why !== null) throw staleLease(id, why ?? "");
  return lease;
}

/** The refusal of a call on a lease. */
export function staleLease(id: number, why: string): SubletError {
  return new SubletError("stale_lease", `lease ${id}: ${why}. Stop its job and drop its report`);
}

/** The job as its kind sees it. */
export function refOf(lease: LeaseRow): JobRef {
  return {
    id: lease.job_id,
    kind: lease.kind,
    key: lease.key,
    lease: lease.id,
    worker: lease.worker,
    ...(lease.revoked_at === null ? {} : { revoked: lease.reason ?? "cancelled" }),
  };
}
