/** @module What the calls of the lease engine share: the ports, the configuration, and the server's memory. */

import type { Cas } from "../cas/mod.ts";
import { type Clock, type Ids, type Log, SubletError } from "../home/mod.ts";
import type { Db, Tx, WriteOptions } from "../store/mod.ts";
import { Deadlines } from "./deadlines.ts";
import { Delayed } from "./delayed.ts";
import { Drains } from "./drains.ts";
import type { Pool, Slots } from "./gates.ts";
import type { JobKind } from "./kind.ts";
import type { LiveLease, Member } from "./member.ts";
import { Offers } from "./offers.ts";
import { QueueIndex } from "./queue_index.ts";
import { Roster } from "./roster.ts";
import { type Undo, writeUndoable } from "./undo.ts";
import { Watchers } from "./watchers.ts";
import type { Timing } from "./wire.ts";

/** What an engine is made of. */
export interface EngineOptions {
  readonly db: Db;
  readonly cas: Cas;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly kinds: readonly JobKind[];
  /** Seconds, with renew < grace < toleration - 2 renew. */
  readonly timing: Timing;
  /** Capacity of each worker, by pool. */
  readonly pools: Readonly<Record<string, Pool>>;
  /** How long jobs that ended and workers that are gone are kept, in days. Default: for ever. */
  readonly keepDays?: number | null;
}

const DAY_MS = 86_400_000;

/** The shared state. Memory follows the database: it changes once a transaction is durable. */
export class Core {
  readonly db: Db;
  readonly cas: Cas;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly log: Log;
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly timing: Timing;
  /** How long what is over is kept. */
  readonly keepMs: number;
  readonly renewMs: number;
  readonly graceMs: number;
  readonly tolerationMs: number;
  readonly roster = new Roster();
  readonly queue: QueueIndex;
  readonly offers: Offers;
  readonly watchers = new Watchers();
  /** Queued leases that may not be taken yet. */
  readonly delays: Delayed;
  readonly deadlines: Deadlines;
  readonly drains: Drains;
  pools: ReadonlyMap<string, Pool>;
  /** The highest id of a message, or a higher one that a worker has read. */
  newestMail = 0;
  /** The highest id of a lease. */
  newestLease = 0;
  state: "new" | "open" | "closed" = "new";
  constructor(options: EngineOptions) {
    const { renew, grace, toleration } = options.timing;
    if (!(0 < renew && renew < grace && grace < toleration - 2 * renew)) {
      throw new SubletError(
        "config",
        `timing: renew (${renew}) < grace (${grace}) < toleration (${toleration}) - 2 renew must hold`,
      );
    }
    ({ db: this.db, cas: this.cas, clock: this.clock, ids: this.ids, log: this.log } = options);
    this.timing = options.timing;
    this.keepMs = (options.keepDays ?? Infinity) * DAY_MS;
    [this.renewMs, this.graceMs, this.tolerationMs] = [
      renew * 1000,
      grace * 1000,
      toleration * 1000,
    ];
    this.kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]));
    this.pools = new Map(Object.entries(options.pools));
    this.delays = new Delayed(this);
    this.deadlines = new Deadlines(this);
    this.drains = new Drains(this);
    this.queue = new QueueIndex((kind) => this.slotsOf(kind));
    this.offers = new Offers(this.clock, this.queue, (name) => this.pools.get(name));
  }

  /** Wall time for the database and for people: whole milliseconds. */
  wall(): number {
    return Math.floor(this.clock.now());
  }

  /** The slots that a kind counts for; null: this server does not know the kind. */
  slotsOf(kind: string): Slots | null {
    return this.kinds.get(kind)?.slots ?? null;
  }

  /** A write transaction; `undo` undoes what its body changed in memory. */
  write<T>(
    body: (tx: Tx, undo: Undo) => Promise<T>,
    options?: WriteOptions,
  ): Promise<T> {
    return writeUndoable(this.db, body, options);
  }

  /** Throws `unavailable` unless the engine was started and not closed. */
  checkOpen(): void {
    if (this.state === "open") return;
    const why = this.state === "new" ? "is starting" : "stops";
    throw new SubletError("unavailable", `the server ${why}: ask again`);
  }

  /**
   * Milliseconds of silence until `member` is unreachable: what it was told when that is longer, since it calls by it.
   */
  graceOf(member: Member): number {
    return Math.max(this.graceMs, member.graceMs);
  }

  /** Milliseconds of silence until `lease` expires: what its worker was told when that is longer, since it stops by it. */
  tolerationOf(lease: LiveLease): number {
    return Math.max(this.tolerationMs, this.roster.get(lease.worker)?.tolerationMs ?? 0);
  }

  /** A lease was granted, durably. The queue's counts know it already. */
  held(lease: LiveLease): void {
    this.roster.hold(lease);
  }

  /** Wall time of the last renewal of a live lease; now for one that memory does not know yet. */
  renewedAt(id: number): number {
    const renewed = this.roster.live.get(id)?.renewed;
    const silent = renewed === undefined ? 0 : this.clock.monotonic() - renewed;
    return this.wall() - Math.round(silent);
  }

  /** A lease of `job` is over, durably, live or not. */
  ended(lease: number, job: number): void {
    this.watchers.changed(job);
    this.deadlines.remove(lease);
    const live = this.roster.release(lease);
    if (live === null) return;
    this.queue.addLive(live.campaign, -1);
    const member = this.roster.get(live.worker);
    if (member !== undefined) this.offers.reconsider(member);
  }

  /** A lease is queued, durably, and may be taken now. */
  takeable(lane: string, campaign: number): void {
    this.queue.add(lane, campaign, 1);
    this.offers.pump(lane);
  }
}
