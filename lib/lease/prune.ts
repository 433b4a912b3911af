/** @module Forgetting what ended long ago: jobs with their leases and events, and workers that do not come back. */

import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";

/** How many jobs one transaction looks at, in each state. */
const AT_ONCE = 200;
const STATES = ["reported", "dead", "cancelled"] as const;

/**
 * Delete a bounded number of the jobs that ended before `before` (wall milliseconds), the oldest first; how many. The
 * job of the newest lease stays: the next fencing ids count on from that.
 */
export async function pruneJobs(tx: Tx, before: number): Promise<number> {
  const newest = await tx.get<Row & { job_id: number }>(
    "SELECT job_id FROM leases ORDER BY id DESC LIMIT 1",
  );
  let pruned = 0;
  for (const state of STATES) {
    const rows = await tx.all<Row & { id: number; ended_at: number }>(
      "SELECT id, ended_at FROM jobs WHERE state = ? ORDER BY id LIMIT ?",
      [state, AT_ONCE],
    );
    for (const { id, ended_at } of rows) {
      if (ended_at >= before || id === newest?.job_id) continue;
      await tx.run("DELETE FROM lease_events WHERE job_id = ?", [id]);
      await tx.run("DELETE FROM leases WHERE job_id = ?", [id]);
      await tx.run("DELETE FROM jobs WHERE id = ?", [id]);
      pruned++;
    }
  }
  return pruned;
}

/** Forget the workers that were last heard before `before` (wall milliseconds) and hold nothing; their names. */
export async function pruneWorkers(core: Core, before: number): Promise<string[]> {
  const isGone = (name: string) => {
    const member = core.roster.get(name);
    return member !== undefined && member.seenAt < before && member.live.size === 0 &&
      core.clock.monotonic() - member.heard >= core.graceOf(member);
  };
  const gone = [...core.roster.all()].map(({ name }) => name).filter(isGone);
  if (gone.length === 0) return [];
  await core.db.write(async (tx) => {
    for (const name of gone) {
      // One that came back meanwhile stays.
      if (!isGone(name)) continue;
      await tx.run("DELETE FROM lease_workers WHERE name = ? AND seen_at < ?", [name, before]);
      tx.onCommit(() => {
        const member = core.roster.get(name);
        if (member === undefined) return;
        core.offers.forget(member);
        core.roster.remove(member);
      });
    }
  });
  return gone;
}
