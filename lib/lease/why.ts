/** @module Why a queued job waits, and why a worker got no lease, in words for people. */

import type { Core } from "./core.ts";
import { isFull, pressure, type Slots } from "./gates.ts";
import { type Lane, parseLane } from "./lanes.ts";
import type { Member } from "./member.ts";

/** Whether the worker was heard within the grace period, and has not ended. */
export function isReachable(core: Core, member: Member): boolean {
  return !member.left && core.clock.monotonic() - member.heard < core.graceOf(member);
}

/** How `member` ended: one that was drained leaves again whenever it is started, until it is resumed. */
function ended(member: Member): "drained" | "gone" {
  return member.drainedAt === null ? "gone" : "drained";
}

/** Why `member` takes no job of the class `slots` now, or null when it may. */
function hindrance(core: Core, member: Member, slots: Slots): string | null {
  if (member.left) return ended(member);
  if (!isReachable(core, member)) return "unreachable";
  const pool = core.pools.get(member.profile.pool);
  if (member.drainedAt !== null || pool === undefined) return "draining";
  if (member.once && member.onceUsed) return "done after its one job";
  if (member.pausedAt !== null) return "paused";
  if (member.outOfDisk) return "out of disk";
  const pressed = pressure(pool, member.sample);
  if (pressed !== null) return pressed === "memory" ? "short of memory" : "loaded";
  if (!isFull(pool, slots, member.counts[slots])) return null;
  return pool[slots] === 0 ? `in a pool without slots for ${slots}` : "full";
}

/** Why a lease that may be taken waits in `lane`. */
export function whyLaneWaits(core: Core, text: string): string {
  const lane = parseLane(text);
  const slots = core.slotsOf(lane.kind);
  if (slots === null) return `this server knows no kind of job ${lane.kind}`;
  const members = [...core.roster.all()];
  if (members.length === 0) {
    return "no worker has registered yet: start one with `sublet worker --server URL --pool POOL`";
  }
  const fitting = members.filter((member) => member.profile.lacks(lane) === null);
  if (fitting.length === 0) return noneFits(members, lane);
  const hindered = new Map<string, number>();
  for (const member of fitting) {
    const why = hindrance(core, member, slots);
    if (why === null) return "it is next for a worker with a free slot";
    hindered.set(why, (hindered.get(why) ?? 0) + 1);
  }
  return `no worker that fits is free: ${counted(hindered, (n, why) => `${n} ${why}`)}`;
}

function noneFits(members: readonly Member[], lane: Lane): string {
  const lacks = new Map<string, number>();
  for (const member of members) {
    const what = member.profile.lacks(lane) ?? "";
    lacks.set(what, (lacks.get(what) ?? 0) + 1);
  }
  return `no worker fits: ${
    counted(lacks, (n, what) => `${n} ${n === 1 ? "lacks" : "lack"} ${what}`)
  }`;
}

function counted(
  counts: ReadonlyMap<string, number>,
  text: (n: number, what: string) => string,
): string {
  return [...counts].map(([what, n]) => text(n, what)).join(", ");
}

/** Why `member` got no lease at its last acquire, or gets none now; null: it did, or has not asked yet. */
export function whyNoLease(core: Core, member: Member): string | null {
  if (member.left) return ended(member);
  if (!isReachable(core, member)) return "unreachable";
  if (member.drainedAt !== null || member.once && member.onceUsed) return "draining";
  if (member.pausedAt !== null) return "paused";
  return member.outOfDisk ? "disk" : member.noLease;
}
