/** @module What a worker says of a job: that it runs, what it came to, or that it is lost. */

import { type Cid, cidOf } from "../cas/mod.ts";
import { isError, messageOf, SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { endJob, endLease, loseLease } from "./ending.ts";
import { record } from "./events.ts";
import { fault, fenced, HELD_BY, heldBy, leaseById, type LeaseRow, staleLease } from "./fence.ts";
import type { JobKind, JobRef } from "./kind.ts";
import type { WorkerCaller } from "./member.ts";
import { knownMember } from "./members.ts";

/** What of a lease's job never changes. */
interface Facts {
  readonly job: number;
  readonly kind: string;
  readonly key: string;
}

const STARTED = `
  UPDATE leases SET state = 'running', handle = ?, session_id = coalesce(?, session_id),
    started_at = coalesce(started_at, ?)
  WHERE ${HELD_BY}`;
const REPORTED = `
  UPDATE leases SET state = 'reported', ended_at = ?, receipt = ?, report_request = ?, renewed_at = ?
  WHERE ${HELD_BY}`;
// A reason says that somebody cancelled it: then it does not end as a success, whatever its report says.
const JOB_REPORTED = `
  UPDATE jobs SET state = CASE WHEN reason IS NULL THEN 'reported' ELSE 'cancelled' END, ended_at = ?
  WHERE id = ? RETURNING reason`;

/** What a report's sender gets. */
export type Receipt = Readonly<Record<string, unknown>>;

/** A stale report of at most so many characters of JSON is kept in its event; a longer one goes into the CAS. */
const INLINE_REPORT = 64 * 1024;
/**
 * After so many refusals of one and the same report its job is taken from its worker: piloop's ends at such a refusal,
 * and sends the report again when it is started again, which renews the lease.
 */
const MAX_REFUSED = 3;
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
  const facts = await factsOf(core, lease);
  await core.db.write(async (tx) => {
    const changed = await tx.run(STARTED, [
      JSON.stringify(handle),
      sessionId,
      core.wall(),
      ...heldBy(caller, lease),
    ]);
    if (changed === 0 || facts === null) throw await refused(tx, caller, lease);
    await core.kinds.get(facts.kind)?.started(tx, refTo(facts, caller, lease));
    tx.onCommit(() => {
      const live = core.roster.live.get(lease);
      if (live !== undefined) core.deadlines.started(live);
      core.watchers.changed(facts.job);
    });
  }, { repeatable: true });
}

/** What of the lease's job never changes: from memory, or for a lease that is not live from the database. */
async function factsOf(core: Core, lease: number): Promise<Facts | null> {
  const live = core.roster.live.get(lease);
  if (live !== undefined) return live;
  const row = await core.db.read((tx) => leaseById(tx, lease));
  return row === null ? null : { job: row.job_id, kind: row.kind, key: row.key };
}

function refTo({ job, kind, key }: Facts, caller: WorkerCaller, lease: number): JobRef {
  return { id: job, kind, key, lease, worker: caller.name };
}

/** Why an update by the fence changed nothing. */
async function refused(tx: Tx, caller: WorkerCaller, lease: number): Promise<SubletError> {
  return staleLease(lease, fault(await leaseById(tx, lease), caller) ?? "it changed meanwhile");
}

/** The caller cannot do the job on `lease`; `by` says whether for a fault of its machine. Throws `stale_lease`. */
export async function lost(
  core: Core,
  caller: WorkerCaller,
  lease: number,
  reason: string,
  by: "worker" | "machine" = "worker",
): Promise<void> {
  core.checkOpen();
  await core.db.write(async (tx) => {
    const row = await fenced(tx, caller, lease);
    await loseLease(core, tx, row, by, plain(reason) || "its worker lost it");
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
  const facts = await factsOf(core, lease);
  try {
    if (facts === null) throw staleLease(lease, "there is no such lease");
    const kind = kindOf(core, facts);
    const parsed = await parse(core, caller, lease, kind, body);
    await checkBlobs(core, kind.blobs(parsed));
    return await core.db.write(
      (tx) => receive(core, tx, caller, lease, requestId, facts, parsed),
      { repeatable: true },
    );
  } catch (error) {
    if (!isError(error, "stale_lease")) throw error;
    await keepStale(core, caller, lease, requestId, body, error);
    throw error;
  }
}

/** The report as its kind reads it. One that is none is stale when its lease is over, and is not asked for for ever. */
async function parse(
  core: Core,
  caller: WorkerCaller,
  lease: number,
  kind: JobKind,
  body: unknown,
): Promise<unknown> {
  try {
    return kind.parse(body);
  } catch (error) {
    const live = core.roster.live.get(lease);
    if (!isError(error) || error.code === "internal") throw error;
    if (live?.worker !== caller.name) {
      throw staleLease(lease, `it is not live, and ${error.message}`);
    }
    const cid = cidOf(new TextEncoder().encode(JSON.stringify(body)));
    live.refused = { cid, times: live.refused?.cid === cid ? live.refused.times + 1 : 1 };
    if (live.refused.times >= MAX_REFUSED) {
      await lost(core, caller, lease, `its report cannot be taken: ${error.message}`);
    }
    throw error;
  }
}

/** Throws `unavailable` for a kind that this server does not know. */
function kindOf(core: Core, { kind: name }: Facts): JobKind {
  const kind = core.kinds.get(name);
  if (kind !== undefined) return kind;
  throw new SubletError("unavailable", `this server knows no kind of job ${name}: keep the report`);
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
  facts: Facts,
  parsed: unknown,
): Promise<Receipt> {
  const receipt = { reported: facts.kind };
  const at = core.wall();
  const changed = await tx.run(REPORTED, [
    at,
    JSON.stringify(receipt),
    requestId,
    core.renewedAt(lease),
    ...heldBy(caller, lease),
  ]);
  if (changed === 0) return await repeated(tx, caller, lease, requestId);
  const ended = await tx.get<Row & { reason: string | null }>(JOB_REPORTED, [at, facts.job]);
  const ref = refTo(facts, caller, lease);
  const revoked = ended?.reason ?? null;
  await kindOf(core, facts).apply(tx, revoked === null ? ref : { ...ref, revoked }, parsed);
  tx.onCommit(() => core.ended(lease, facts.job));
  return receipt;
}

/** The receipt of a report that was applied already. Throws `stale_lease` for any other. */
async function repeated(
  tx: Tx,
  caller: WorkerCaller,
  lease: number,
  requestId: string,
): Promise<Receipt> {
  const row = await leaseById(tx, lease);
  if (row !== null && row.worker === caller.name && row.report_request === requestId) {
    return JSON.parse(row.receipt ?? "{}");
  }
  throw await refused(tx, caller, lease);
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
  await core.db.write(async (tx) => {
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
