/** @module A worker starts: its row, whether it may take the place of an earlier process, and the leases it holds. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Cid } from "../cas/mod.ts";
import type { Core } from "./core.ts";
import { record } from "./events.ts";
import { fleetTiming } from "./fleet_timing.ts";
import type { WorkerCaller } from "./member.ts";
import { memberOf, textsOf, type WorkerRow, workerRow } from "./members.ts";
import { checkPool, superseded } from "./roster.ts";
import { isoOrNull } from "./time.ts";
import { type HostSample, jobHandle, type Timing } from "./wire.ts";

/** What a worker says of itself. */
export interface RegisterRequest {
  readonly version: string;
  readonly pool: string;
  readonly runners: readonly string[];
  readonly labels: readonly string[];
  readonly sample: HostSample;
  readonly casProbe: Cid;
  /** It takes exactly one lease. */
  readonly once: boolean;
}

/** A lease that a worker holds, as it goes over the wire. */
export interface WireGrant {
  readonly lease: number;
  readonly job_cid: string;
  readonly handle: unknown;
  readonly started_at: string | null;
}

/** What a worker learns when it registers. */
export interface Registered {
  readonly worker: string;
  readonly timing: Timing;
  readonly held: readonly WireGrant[];
  readonly cursor: number;
}

/** A lease's columns of a grant. */
export type GrantRow = Row & {
  id: number;
  job_cid: string;
  handle: string | null;
  started_at: number | null;
};

/** How many replaced processes of a name are remembered. */
const REMEMBERED = 16;

/** A row as a grant. */
export function grantOf(row: GrantRow): WireGrant {
  return {
    lease: row.id,
    job_cid: row.job_cid,
    handle: row.handle === null ? null : jobHandle.parse(JSON.parse(row.handle)),
    started_at: isoOrNull(row.started_at),
  };
}

/** Record the worker. Throws `other_cas`, `dismissed`, `permission_denied`, `superseded`, `unavailable`. */
export async function register(
  core: Core,
  caller: WorkerCaller,
  info: RegisterRequest,
): Promise<Registered> {
  core.checkOpen();
  if (!await core.cas.has(info.casProbe)) {
    throw new SubletError(
      "other_cas",
      `this worker's CAS is not the server's, which lacks ${info.casProbe}: give the worker the ` +
        `[plugins.cas] of the server`,
    );
  }
  if (!core.pools.has(info.pool)) {
    const known = [...core.pools.keys()].sort().join(", ");
    throw new SubletError("dismissed", `there is no pool ${info.pool}: the pools are ${known}`);
  }
  checkPool(caller, info.pool);
  const registered = await core.write((tx) => enter(core, tx, caller, info));
  core.log.event("worker.joined", { worker: caller.name, pool: info.pool, version: info.version });
  return registered;
}

async function enter(
  core: Core,
  tx: Tx,
  caller: WorkerCaller,
  info: RegisterRequest,
): Promise<Registered> {
  const { name, incarnation } = caller;
  const old = await workerRow(tx, name);
  if (old !== null && old.incarnation !== incarnation) await replace(core, tx, caller, old);
  const held = await heldBy(tx, name, incarnation);
  // The worker takes them for renewed. Here, so that an expiry in the same commit sees it.
  const now = core.clock.monotonic();
  for (const { lease } of held) {
    const live = core.roster.live.get(lease);
    if (live !== undefined) live.renewed = now;
  }
  const cursor = old === null ? core.newestMail : Math.min(old.cursor, core.newestMail);
  const row = rowOf(core, caller, info, old, held, cursor);
  await putRow(tx, row);
  await record(tx, row.joined_at, {
    event: "joined",
    worker: name,
    fields: { pool: info.pool, version: info.version },
  });
  tx.onCommit(() => adopt(core, caller, info, row));
  return { worker: name, timing: fleetTiming(core.timing, core.roster.size), held, cursor };
}

/** A process other than the one of `old` registers: it takes over what that held, or nothing, or is refused. */
async function replace(core: Core, tx: Tx, caller: WorkerCaller, old: WorkerRow): Promise<void> {
  // What arrives late from a process that was replaced must not replace its successor.
  if (caller.incarnation !== null && textsOf(old.former).includes(caller.incarnation)) {
    throw superseded(caller.name);
  }
  if (old.incarnation !== null && caller.succeeds === old.incarnation) {
    await tx.run(
      `UPDATE leases SET incarnation = ? WHERE worker = ? AND incarnation = ?
         AND acquired_at IS NOT NULL AND ended_at IS NULL`,
      [caller.incarnation, caller.name, old.incarnation],
    );
    return;
  }
  const known = core.roster.get(caller.name);
  if (known === undefined || known.left) return;
  const leftMs = known.heard + core.graceOf(known) - core.clock.monotonic();
  if (leftMs <= 0) return;
  if (known.heardSinceStart) throw superseded(caller.name, leftMs / 1000);
  throw new SubletError(
    "unavailable",
    `the server has just started, and another process worked as ${caller.name} before: ask again ` +
      `in ${core.timing.grace} seconds`,
  );
}

async function heldBy(tx: Tx, name: string, incarnation: string | null): Promise<WireGrant[]> {
  const rows = await tx.all<GrantRow>(
    `SELECT l.id, j.job_cid, l.handle, l.started_at FROM leases l JOIN jobs j ON j.id = l.job_id
     WHERE l.worker = ? AND l.incarnation IS NOT DISTINCT FROM ?
       AND l.acquired_at IS NOT NULL AND l.ended_at IS NULL
     ORDER BY l.id`,
    [name, incarnation],
  );
  return rows.map(grantOf);
}

function rowOf(
  core: Core,
  caller: WorkerCaller,
  info: RegisterRequest,
  old: WorkerRow | null,
  held: readonly WireGrant[],
  cursor: number,
): WorkerRow {
  const again = old !== null && old.incarnation === caller.incarnation;
  const former = old === null ? [] : textsOf(old.former);
  if (old !== null && !again && old.incarnation !== null) former.push(old.incarnation);
  const at = core.wall();
  return {
    name: caller.name,
    pool: info.pool,
    version: info.version,
    runners: JSON.stringify(info.runners),
    labels: JSON.stringify(info.labels),
    incarnation: caller.incarnation,
    former: JSON.stringify(former.slice(-REMEMBERED)),
    once: info.once ? 1 : 0,
    // A successor that takes a lease over has had its one.
    once_lease: again ? old.once_lease : info.once ? held[0]?.lease ?? null : null,
    cursor,
    sample: JSON.stringify(info.sample),
    seen_at: at,
    no_lease: null,
    joined_at: at,
    drained_at: old?.drained_at ?? null,
    paused_at: old?.paused_at ?? null,
    standing_reason: old?.standing_reason ?? null,
    drain_by: old?.drain_by ?? null,
    left_at: null,
    told_grace: core.timing.grace,
    told_toleration: core.timing.toleration,
  };
}

async function putRow(tx: Tx, row: WorkerRow): Promise<void> {
  const columns = Object.keys(row);
  const updates = columns.slice(1).map((column) => `${column} = excluded.${column}`);
  await tx.run(
    `INSERT INTO lease_workers (${columns.join(", ")})
     VALUES (${columns.map(() => "?").join(", ")})
     ON CONFLICT (name) DO UPDATE SET ${updates.join(", ")}`,
    Object.values(row),
  );
}

/** Memory follows the row. */
function adopt(core: Core, caller: WorkerCaller, info: RegisterRequest, row: WorkerRow): void {
  const now = core.clock.monotonic();
  const member = memberOf(core, row, now);
  member.hear(now, row.seen_at, info.sample, caller.local);
  const known = core.roster.get(row.name);
  if (known !== undefined) {
    for (const lease of known.live.values()) member.hold(lease);
    member.newestMail = known.newestMail;
    core.offers.forget(known);
    core.roster.remove(known);
    // Its long-poll is that of an earlier registration: what it is told now would be lost.
    known.poll?.("nothing");
  }
  core.roster.add(member);
}
