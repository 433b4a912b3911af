/** @module What the server's memory says of workers, pools and the queue. */

import type { Row } from "../store/mod.ts";
import type { Core } from "./core.ts";
import type { Slots } from "./gates.ts";
import type { Member } from "./member.ts";
import { isoOrNull, isoTime } from "./time.ts";
import { isReachable, whyLaneWaits, whyNoLease } from "./why.ts";
import type { HostSample, Timing } from "./wire.ts";

/** A worker. */
export interface WorkerView {
  readonly worker: string;
  readonly pool: string;
  readonly version: string;
  readonly runners: readonly string[];
  readonly labels: readonly string[];
  readonly once: boolean;
  readonly joined_at: string;
  readonly seen_at: string;
  readonly seen_seconds: number;
  readonly reachable: boolean;
  readonly drained_at: string | null;
  readonly paused_at: string | null;
  /** Why it was drained or paused, as whoever did it said. */
  readonly standing_reason: string | null;
  /** When what it holds is taken from it, once drained; null: never. */
  readonly drain_by: string | null;
  readonly sample: HostSample;
  /** Live leases, and how many there may be; null: no bound. */
  readonly agents: number;
  readonly evaluations: number;
  readonly slots: Readonly<Record<Slots, number | null>>;
  readonly leases: readonly number[];
  /** Why it got no lease: draining, memory, load, slots, nothing, disk, paused, unreachable, gone; null when it did. */
  readonly no_lease: string | null;
}

/** The whole server, in numbers. */
export interface EngineStatus {
  readonly jobs: {
    /** Those that may be taken, those that wait before their next attempt, those that run, and those that are dead. */
    readonly queued: number;
    readonly delayed: number;
    readonly running: number;
    readonly dead: number;
    /** Why jobs wait that may be taken; null: none does. */
    readonly waits: string | null;
  };
  readonly workers: { readonly total: number; readonly reachable: number };
  readonly pools: readonly PoolView[];
  readonly timing: Timing;
}

/** A pool: the capacity of each of its workers, and what they hold. */
export interface PoolView {
  readonly pool: string;
  readonly slots: Readonly<Record<Slots, number | null>>;
  readonly workers: number;
  readonly reachable: number;
  readonly agents: number;
  readonly evaluations: number;
}

/** Every worker, by name. */
export function listWorkers(core: Core): WorkerView[] {
  return [...core.roster.all()].map((member) => workerView(core, member))
    .sort((a, b) => a.worker < b.worker ? -1 : 1);
}

function workerView(core: Core, member: Member): WorkerView {
  return {
    worker: member.name,
    pool: member.profile.pool,
    version: member.version,
    runners: [...member.profile.runners],
    labels: [...member.profile.labels],
    once: member.once,
    joined_at: isoTime(member.joinedAt),
    seen_at: isoTime(member.seenAt),
    seen_seconds: Math.max(0, Math.floor((core.clock.now() - member.seenAt) / 1000)),
    reachable: isReachable(core, member),
    drained_at: isoOrNull(member.drainedAt),
    paused_at: isoOrNull(member.pausedAt),
    standing_reason: member.standingReason,
    drain_by: isoOrNull(member.drainBy),
    sample: member.sample,
    agents: member.counts.agents,
    evaluations: member.counts.evaluations,
    slots: slotsOf(core, member.profile.pool),
    leases: [...member.live.keys()],
    no_lease: whyNoLease(core, member),
  };
}

function slotsOf(core: Core, name: string): Record<Slots, number | null> {
  const pool = core.pools.get(name);
  return pool === undefined
    ? { agents: 0, evaluations: 0 }
    : { agents: pool.agents ?? null, evaluations: pool.evaluations ?? null };
}

/** Every pool, by name. */
export function listPools(core: Core): PoolView[] {
  const views = new Map(
    [...core.pools.keys()].sort().map((pool) => [pool, {
      pool,
      slots: slotsOf(core, pool),
      workers: 0,
      reachable: 0,
      agents: 0,
      evaluations: 0,
    }]),
  );
  for (const member of core.roster.all()) {
    const view = views.get(member.profile.pool);
    if (view === undefined) continue;
    view.workers++;
    if (isReachable(core, member)) view.reachable++;
    view.agents += member.counts.agents;
    view.evaluations += member.counts.evaluations;
  }
  return [...views.values()];
}

/** The whole server. */
export async function engineStatus(core: Core): Promise<EngineStatus> {
  const dead = await core.db.read((tx) =>
    tx.get<Row & { dead: number }>("SELECT count(*) AS dead FROM jobs WHERE state = 'dead'")
  );
  const members = [...core.roster.all()];
  return {
    jobs: {
      queued: core.queue.total,
      delayed: core.delays.size,
      running: core.roster.live.size,
      dead: dead?.dead ?? 0,
      waits: whyAnythingWaits(core),
    },
    workers: {
      total: members.length,
      reachable: members.filter((member) => isReachable(core, member)).length,
    },
    pools: listPools(core),
    timing: core.timing,
  };
}

function whyAnythingWaits(core: Core): string | null {
  const lanes = [...core.queue.waiting()].sort((a, b) => b.count - a.count);
  return lanes[0] === undefined ? null : whyLaneWaits(core, lanes[0].text);
}
