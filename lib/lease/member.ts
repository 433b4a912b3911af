/** @module A worker as the server's memory has it: what it offers, when it was heard, and what it holds. */

import type { Slots } from "./gates.ts";
import type { Profile } from "./lanes.ts";
import { DISK_RESERVE, type HostSample, type NoLease } from "./wire.ts";

/** Who calls. */
export interface WorkerCaller {
  /** The credential's name, which is the worker's. */
  readonly name: string;
  /** The only pool that the credential admits. Null: any. */
  readonly pool: string | null;
  /** Which process it is. Null: it does not say, as piloop's workers do not. */
  readonly incarnation: string | null;
  /** The dead process that it says to succeed. */
  readonly succeeds: string | null;
  /** Whether it is on the server's own machine, so that hearing it says nothing of the network. */
  readonly local: boolean;
}

/** A live lease. Times are monotonic milliseconds. */
export interface LiveLease {
  readonly id: number;
  readonly job: number;
  readonly kind: string;
  readonly key: string;
  readonly slots: Slots;
  readonly campaign: number;
  readonly worker: string;
  /** How long its job may run once it has started; null: as long as it takes. */
  readonly timeoutMs: number | null;
  /** When a heartbeat last renewed it. */
  renewed: number;
  /** The last report that could not be read, and how often it came. */
  refused?: { readonly cid: string; readonly times: number };
}

/** Why a worker got no lease at its last acquire. `paused` is told to it as `nothing`. */
export type WhyNoLease = NoLease | "paused";

/** How a parked long-poll ends. */
export type Wake = "mail" | "work" | "nothing";

/** A worker's open offer of work. */
export interface Offer {
  readonly member: Member;
  readonly lane: string;
  /** Monotonic milliseconds after which somebody else is asked. */
  due: number;
}

/** A worker. Its row in the database changes first; this follows when that is durable. */
export class Member {
  readonly name: string;
  profile: Profile;
  version: string;
  incarnation: string | null = null;
  /** Replaced incarnations, newest last. */
  former: readonly string[] = [];
  once = false;
  onceUsed = false;
  drainedAt: number | null = null;
  pausedAt: number | null = null;
  /** Why it was drained or paused. */
  standingReason: string | null = null;
  /** Wall time by which it is to be empty, once drained. */
  drainBy: number | null = null;
  /** The times that it was told when it registered, which may have been by a server that had others. */
  graceMs = 0;
  tolerationMs = 0;
  joinedAt: number;
  local = false;
  cursor: number;
  /** The highest id of its unanswered messages. */
  newestMail = 0;
  /** Monotonic time at which it was heard, and whether that was in this life of the server. */
  heard: number;
  heardSinceStart = false;
  /** Wall time at which it was heard. */
  seenAt: number;
  sample: HostSample;
  noLease: WhyNoLease | null = null;
  unreachable = false;
  /** Its process said that it ended. */
  left = false;
  /** Whether its row's sample, seen time or reason are older than these. */
  dirty = false;
  readonly live = new Map<number, LiveLease>();
  readonly counts: Record<Slots, number> = { agents: 0, evaluations: 0 };
  /** Ends its parked long-poll. */
  poll: ((wake: Wake) => void) | null = null;
  offer: Offer | null = null;
  /** Offers in a row that it did not follow, and when it may get the next. */
  ignored = 0;
  offerAfter = -Infinity;

  constructor(
    init: Pick<
      Member,
      "name" | "profile" | "version" | "joinedAt" | "cursor" | "heard" | "seenAt" | "sample"
    >,
  ) {
    this.name = init.name;
    this.profile = init.profile;
    this.version = init.version;
    this.joinedAt = init.joinedAt;
    this.cursor = init.cursor;
    this.heard = init.heard;
    this.seenAt = init.seenAt;
    this.sample = init.sample;
  }

  /** It was heard at `now` (monotonic) and `wall`. */
  hear(now: number, wall: number, sample: HostSample, local: boolean): void {
    this.heard = now;
    this.heardSinceStart = true;
    this.seenAt = wall;
    this.sample = sample;
    this.local = local;
    this.dirty = true;
  }

  /** Whether it takes no more leases, whatever waits. */
  get closed(): boolean {
    return this.left || this.drainedAt !== null || this.pausedAt !== null ||
      this.once && this.onceUsed;
  }

  /** Whether it asks for no job because its disk is full. Piloop's workers ask all the same. */
  get outOfDisk(): boolean {
    const { incarnation, sample } = this;
    return incarnation !== null && sample.at !== "" && sample.disk_free < DISK_RESERVE;
  }

  hold(lease: LiveLease): void {
    if (this.live.has(lease.id)) return;
    this.live.set(lease.id, lease);
    this.counts[lease.slots]++;
  }

  release(lease: LiveLease): void {
    if (this.live.delete(lease.id)) this.counts[lease.slots]--;
  }
}
