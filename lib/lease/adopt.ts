/** @module The server starts: its memory is filled from the database, and everybody gets a full period. */

import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import type { Slots } from "./gates.ts";
import { memberOf, type WorkerRow } from "./members.ts";

/** The longest that a queued lease is made to wait after a start, whatever the wall clock says. */
const LONGEST_WAIT_MS = 450_000;

/** Ids of leases begin at every start at this many for each millisecond since 2026: more than can be given out. */
const IDS_PER_MS = 64;
const EPOCH_MS = 1_767_225_600_000;
/** How far they jump ahead at most when the wall clock was set back. */
const JUMP = 2 ** 30;

/** Fill memory: workers, live leases, what waits, unread messages. */
export async function adopt(core: Core): Promise<void> {
  await core.db.write(async (tx) => {
    await adoptMembers(core, tx);
    await adoptLive(core, tx);
    await core.deadlines.adopt(tx);
    await adoptQueue(core, tx);
    await adoptMail(core, tx);
    await adoptIds(core, tx);
  });
}

async function adoptMembers(core: Core, tx: Tx): Promise<void> {
  const now = core.clock.monotonic();
  for (const row of await tx.all<WorkerRow>("SELECT * FROM lease_workers ORDER BY name")) {
    core.roster.add(memberOf(core, row, now));
  }
}

async function adoptLive(core: Core, tx: Tx): Promise<void> {
  const now = core.clock.monotonic();
  const rows = await tx.all<
    Row & {
      id: number;
      job_id: number;
      kind: string;
      key: string;
      slots: Slots;
      campaign: number;
      worker: string;
      timeout_ms: number | null;
    }
  >(
    `SELECT l.id, l.job_id, j.kind, j.key, l.slots, l.campaign, l.worker, j.timeout_ms
     FROM leases l JOIN jobs j ON j.id = l.job_id
     WHERE l.worker >= '' AND l.acquired_at IS NOT NULL AND l.ended_at IS NULL`,
  );
  // The range over all workers picks the index of live leases; an ORDER BY would walk all that ever were.
  rows.sort((a, b) => a.id - b.id);
  for (const { id, job_id: job, timeout_ms: timeoutMs, ...row } of rows) {
    const { kind, key, slots, campaign, worker } = row;
    core.roster.hold({ id, job, timeoutMs, kind, key, slots, campaign, worker, renewed: now });
    core.queue.addLive(campaign, 1);
  }
}

async function adoptQueue(core: Core, tx: Tx): Promise<void> {
  const lanes = await tx.all<Row & { lane: string; campaign: number; count: number }>(
    "SELECT lane, campaign, count(*) AS count FROM leases WHERE ready = 1 GROUP BY lane, campaign",
  );
  for (const { lane, campaign, count } of lanes) core.queue.add(lane, campaign, count);
  const waiting = await tx.all<Row & { id: number; ready_at: number }>(
    "SELECT id, ready_at FROM leases WHERE ready_at IS NOT NULL ORDER BY ready_at, id",
  );
  const wall = core.clock.now();
  for (const { id, ready_at } of waiting) {
    const left = Math.min(Math.max(0, ready_at - wall), LONGEST_WAIT_MS);
    core.delays.add(id, core.clock.monotonic() + left);
  }
}

async function adoptMail(core: Core, tx: Tx): Promise<void> {
  const unread = await tx.all<Row & { worker: string; newest: number }>(
    `SELECT worker, max(id) AS newest FROM lease_messages WHERE answered_at IS NULL GROUP BY worker`,
  );
  for (const { worker, newest } of unread) {
    const member = core.roster.get(worker);
    if (member !== undefined) member.newestMail = newest;
  }
  const ids = await tx.get<Row & { mail: number; cursor: number }>(
    `SELECT coalesce((SELECT max(id) FROM lease_messages), 0) AS mail,
       coalesce((SELECT max(cursor) FROM lease_workers), 0) AS cursor`,
  );
  core.newestMail = Math.max(ids?.mail ?? 0, ids?.cursor ?? 0);
}

/**
 * A fencing id must never come back and only grow, and a database that was restored from a backup knows nothing of those
 * that were given out since. So they go on from the time of the start. Where that is behind the newest, since somebody
 * set the clock back, every start leaves a gap of a size that no other start has. The very first lease is 1.
 */
async function adoptIds(core: Core, tx: Tx): Promise<void> {
  const row = await tx.get<Row & { newest: number; used: number }>(
    `SELECT coalesce((SELECT max(id) FROM leases), 0) AS newest,
       (SELECT max(id) FROM jobs) IS NOT NULL OR (SELECT max(name) FROM lease_workers) IS NOT NULL
         AS used`,
  );
  if (row === null || row.used === 0) return;
  const byTime = Math.floor((core.wall() - EPOCH_MS) * IDS_PER_MS);
  core.newestLease = byTime > row.newest
    ? byTime
    : row.newest + Math.floor(core.ids.random() * JUMP);
}
