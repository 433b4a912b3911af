/** @module The rows of workers: read into memory, made anew for a worker that was forgotten, written down now and then. */

import * as z from "zod";
import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import type { Core } from "./core.ts";
import { Member, type WhyNoLease, type WorkerCaller } from "./member.ts";
import { type HostSample, hostSample } from "./wire.ts";

/** A worker's row. */
export type WorkerRow = Row & {
  name: string;
  pool: string;
  version: string;
  runners: string;
  labels: string;
  incarnation: string | null;
  former: string;
  once: number;
  once_lease: number | null;
  cursor: number;
  sample: string;
  seen_at: number;
  no_lease: string | null;
  joined_at: number;
  drained_at: number | null;
  paused_at: number | null;
  standing_reason: string | null;
  drain_by: number | null;
  told_grace: number | null;
  told_toleration: number | null;
  left_at: number | null;
};

const texts = z.array(z.string());
/** What stands in for the sample of a worker that has sent none yet. */
const NO_SAMPLE: HostSample = { at: "", cpus: 1, load1: 0, memory_available: 0, disk_free: 0 };

/** A worker's row, or null. */
export function workerRow(tx: Tx, name: string): Promise<WorkerRow | null> {
  return tx.get<WorkerRow>("SELECT * FROM lease_workers WHERE name = ?", [name]);
}

/** The list of texts in a JSON column. */
export function textsOf(json: string): string[] {
  return texts.parse(JSON.parse(json));
}

/** The worker of a row, as heard at `heard` (monotonic). */
export function memberOf(core: Core, row: WorkerRow, heard: number): Member {
  const sample = hostSample.safeParse(JSON.parse(row.sample));
  const member = new Member({
    name: row.name,
    profile: core.roster.profiles.take(row.pool, textsOf(row.runners), textsOf(row.labels)),
    version: row.version,
    joinedAt: row.joined_at,
    cursor: row.cursor,
    heard,
    seenAt: row.seen_at,
    sample: sample.success ? sample.data : NO_SAMPLE,
  });
  member.incarnation = row.incarnation;
  member.former = textsOf(row.former);
  member.once = row.once === 1;
  member.onceUsed = row.once_lease !== null;
  member.drainedAt = row.drained_at;
  member.pausedAt = row.paused_at;
  member.standingReason = row.standing_reason ?? null;
  member.drainBy = row.drain_by ?? null;
  member.graceMs = (row.told_grace ?? 0) * 1000;
  member.tolerationMs = (row.told_toleration ?? 0) * 1000;
  member.left = row.left_at !== null;
  member.noLease = row.no_lease as WhyNoLease | null;
  return member;
}

/**
 * The worker that calls, as {@linkcode Roster.check} judges it. A process that cannot be asked to register again (it
 * has no incarnation) gets its row back when its pool is known: its token's, or the only one there is.
 */
export async function knownMember(core: Core, caller: WorkerCaller): Promise<Member> {
  core.checkOpen();
  if (core.roster.get(caller.name) !== undefined || caller.incarnation !== null) {
    return core.roster.check(caller);
  }
  const pool = caller.pool ?? (core.pools.size === 1 ? [...core.pools.keys()][0] : undefined);
  if (pool === undefined || !core.pools.has(pool)) return core.roster.check(caller);
  await core.write(async (tx) => {
    const at = core.wall();
    await tx.run(
      `INSERT INTO lease_workers (name, pool, version, runners, labels, cursor, sample, seen_at, joined_at)
       VALUES (?, ?, '', '["process"]', '[]', ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
      [caller.name, pool, core.newestMail, JSON.stringify(NO_SAMPLE), at, at],
    );
    const row = await workerRow(tx, caller.name);
    tx.onCommit(() => {
      if (row === null || core.roster.get(caller.name) !== undefined) return;
      core.roster.add(memberOf(core, row, core.clock.monotonic()));
    });
  });
  return core.roster.check(caller);
}

/** How many rows one transaction writes down. */
const WRITTEN_AT_ONCE = 500;

/** Write down when workers were heard, their samples, and why they got no lease. For people only. */
export async function writeDown(core: Core): Promise<void> {
  const dirty = [...core.roster.all()].filter((member) => member.dirty);
  for (let from = 0; from < dirty.length; from += WRITTEN_AT_ONCE) {
    const some = dirty.slice(from, from + WRITTEN_AT_ONCE);
    for (const member of some) member.dirty = false;
    await core.db.write(async (tx) => {
      for (const { name, sample, seenAt, noLease } of some) {
        await tx.run(
          "UPDATE lease_workers SET sample = ?, seen_at = ?, no_lease = ? WHERE name = ?",
          [JSON.stringify(sample), seenAt, noLease, name],
        );
      }
    });
  }
}

/** Throws `not_found` for a worker that the server does not know. */
export function memberNamed(core: Core, name: string): Member {
  const member = core.roster.get(name);
  if (member === undefined) throw new SubletError("not_found", `there is no worker ${name}`);
  return member;
}
