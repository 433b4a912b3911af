/** @module What a worker says of a job: that it runs, what it came to, or that it is lost. */

import type { Cid } from "../cas/mod.ts";
import { isError, messageOf, SubletError } from "../home/mod.ts";
import type { Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { endJob, endLease, loseLease } from "./ending.ts";
import { record } from "./events.ts";
import { fault, fenced, leaseById, type LeaseRow, refOf, staleLease } from "./fence.ts";
import type { JobKind } from "./kind.ts";
import type { WorkerCaller } from "./member.ts";
import { knownMember } from "./members.ts";

/** What a report's sender gets. */
export type Receipt = Readonly<Record<string, unknown>>;

/** A stale report of at most so many characters of JSON is kept in its event; a longer one goes into the CAS. */
const INLINE_REPORT = 64 * 1024;
/** Longest reason of a loss that is kept. */
const MAX_REASON = 2000;

/** The job on `lease` runs at `handle`. Repeatable. Throws `stale_lease`. */
export async function started(
  core: Core,
  caller: WorkerCaller,
  lease: number,
  handle: unknown,
  sessionId: string | null,
): Promise<void> {
  await knownMember(core, caller);
  await core.write(async (tx) => {
    const row = await fenced(tx, caller, lease);
    const at = core.wall();
    await tx.run(
      `UPDATE leases SET state = 'running', handle = ?, session_id = coalesce(?, session_id),
         started_at = coalesce(started_at, ?) WHERE id = ?`,
      [JSON.stringify(handle), sessionId, at, lease],
    );
    if (row.state === "acquired") {
      await record(tx, at, { event: "running", job: row.job_id, lease, worker: caller.name });
    }
    await core.kinds.get(row.kind)?.started(tx, refOf(row));
    tx.onCommit(() => core.watchers.changed(row.job_id));
  });
}

/** The caller cannot find the job on `lease` again. Throws `stale_lease`. */
export async function lost(
  core: Core,
  caller: WorkerCaller,
  lease: number,
  reason: string,
): Promise<void> {
  core.checkOpen();
  await core.write(async (tx) => {
    const row = await fenced(tx, caller, lease);
    await loseLease(core, tx, row, "worker", plain(reason) || "its worker lost it");
  });
}

/** `text` as a column can hold it. */
function plain(text: string): string {
  return text.replaceAll("\0", " ").slice(0, MAX_REASON).trim();
}

/**
 * Apply what the job on `lease` came to. Sent again with its request id, it gets the same receipt. Throws
 * `invalid_body`, `unsafe_path` and `missing_blobs`, which change nothing, and `stale_lease`, which keeps the report as
 * an event of its job. The fence alone judges it: a process that was replaced meanwhile may still hand in its work.
 */
export async function report(
  core: Core,
  caller: WorkerCaller,
  lease: number,
  requestId: string,
  body: unknown,
): Promise<Receipt> {
  core.checkOpen();
  const kind = await kindOf(core, lease);
  try {
    if (kind === null) return await core.write((tx) => receive(core, tx, caller, lease, requestId));
    const parsed = kind.parse(body);
    await checkBlobs(core, kind.blobs(parsed));
    return await core.write((tx) => receive(core, tx, caller, lease, requestId, kind, parsed));
  } catch (error) {
    if (!isError(error, "stale_lease")) throw error;
    await keepStale(core, caller, lease, requestId, body, error);
    throw error;
  }
}

/** The kind of the lease's job; null when there is no such lease. Throws `unavailable` for a kind that is unknown here. */
async function kindOf(core: Core, lease: number): Promise<JobKind | null> {
  const name = core.roster.live.get(lease)?.kind ??
    (await core.db.read((tx) => leaseById(tx, lease)))?.kind;
  if (name === undefined) return null;
  const kind = core.kinds.get(name);
  if (kind === undefined) {
    throw new SubletError(
      "unavailable",
      `this server knows no kind of job ${name}: keep the report`,
    );
  }
  return kind;
}

async function checkBlobs(core: Core, blobs: readonly Cid[]): Promise<void> {
  const missing = blobs.length === 0 ? [] : await core.cas.missing(blobs);
  if (missing.length === 0) return;
  const some = missing.slice(0, 5).join(", ");
  throw new SubletError(
    "missing_blobs",
    `the server's CAS lacks ${missing.length} of the blobs that the report names: ${some}`,
  );
}

async function receive(
  core: Core,
  tx: Tx,
  caller: WorkerCaller,
  lease: number,
  requestId: string,
  kind?: JobKind,
  parsed?: unknown,
): Promise<Receipt> {
  const row = await leaseById(tx, lease);
  if (row !== null && row.worker === caller.name && row.report_request === requestId) {
    return JSON.parse(row.receipt ?? "{}");
  }
  const why = fault(row, caller);
  if (row === null || kind === undefined || why !== null) throw staleLease(lease, why ?? "");
  await kind.apply(tx, refOf(row), parsed);
  const receipt = { reported: row.kind };
  await endLease(core, tx, row, "reported", receipt, requestId);
  const at = core.wall();
  await tx.run("UPDATE jobs SET state = ?, ended_at = ? WHERE id = ?", [
    row.revoked_at === null ? "reported" : "cancelled",
    at,
    row.job_id,
  ]);
  await record(tx, at, { event: "reported", job: row.job_id, lease, worker: caller.name });
  return receipt;
}

/** Keep a refused report: as JSON in an event of its job, or by its address when it is long. */
async function keepStale(
  core: Core,
  caller: WorkerCaller,
  lease: number,
  requestId: string,
  body: unknown,
  error: SubletError,
): Promise<void> {
  const text = JSON.stringify(body);
  const kept = text.length <= INLINE_REPORT
    ? { report: body }
    : { report_cid: await core.cas.put(new TextEncoder().encode(text)) };
  await core.write(async (tx) => {
    const row = await leaseById(tx, lease);
    await record(tx, core.wall(), {
      event: "stale_report",
      job: row?.job_id ?? null,
      lease,
      worker: caller.name,
      request: requestId,
      fields: { reason: messageOf(error), ...kept },
    });
    // The kind settled the job by other means: nobody else will end its lease.
    if (row !== null && fault(row, caller) === null) await settle(core, tx, row, messageOf(error));
  });
  core.log.event("lease.stale_report", { lease, worker: caller.name, reason: messageOf(error) });
}

async function settle(core: Core, tx: Tx, row: LeaseRow, reason: string): Promise<void> {
  await endLease(core, tx, row, "cancelled", { settled: reason });
  await endJob(core, tx, row, "cancelled", reason);
}
