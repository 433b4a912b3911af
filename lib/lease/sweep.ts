/**
 * @module Silence: workers that were not heard for the grace period are unreachable, and leases that were not renewed
 * for the toleration are lost. It is timed by when the server heard them, on its monotonic clock.
 */

import { messageOf } from "../home/mod.ts";
import { Alarm } from "./alarm.ts";
import type { Core } from "./core.ts";
import { loseLease } from "./ending.ts";
import { pruneEvents, record } from "./events.ts";
import { isLive, leaseById } from "./fence.ts";
import { pruneMail } from "./mail.ts";
import type { LiveLease, Member } from "./member.ts";
import { pruneJobs, pruneWorkers } from "./prune.ts";
import { writeDown } from "./members.ts";

/** How many leases expire between two looks at what else waits for the database. */
const EXPIRED_AT_ONCE = 100;
/** How soon a sweep that failed is tried again. */
const RETRY_MS = 1000;
/** The least between two looks, so that nothing can make them follow one another without end. */
const LEAST_MS = 1;
/** How often what memory knows of workers is written down, and old events are deleted. */
const UPKEEP_MS = 60_000;
const PRUNE_ROUNDS = 20;

/** The sweep. */
export class Sweep {
  readonly #core: Core;
  readonly #alarm: Alarm;
  #running: Promise<void> = Promise.resolve();
  #busy = false;
  /** Clocks when the alarm was set, to tell how long the server was away since. */
  #set = { monotonic: 0, wall: 0 };
  #upkeepAt: number;
  /** Whether the server stood still during a look that failed. */
  #missed = false;
  /** Whether everybody was forgiven since a remote worker was last heard. */
  #forgiven = false;

  constructor(core: Core) {
    this.#core = core;
    this.#upkeepAt = core.clock.monotonic() + UPKEEP_MS;
    this.#alarm = new Alarm(core.clock, (due) => {
      this.#running = this.#sweep(due);
    });
  }

  /** Look at silence from now on. */
  start(): void {
    this.#arm(this.#core.clock.monotonic() + this.#core.renewMs);
  }

  /** Look at once; resolves when it is done. */
  async now(): Promise<void> {
    await this.#running;
    this.#running = this.#sweep(this.#core.clock.monotonic());
    await this.#running;
  }

  /** Resolves when the last look is over. */
  async close(): Promise<void> {
    this.#alarm.clear();
    await this.#running;
    this.#alarm.clear();
  }

  #arm(due: number): void {
    const { clock } = this.#core;
    this.#alarm.clear();
    this.#set = { monotonic: clock.monotonic(), wall: clock.now() };
    this.#alarm.at(due);
  }

  async #sweep(due: number): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    const { clock, renewMs } = this.#core;
    let next = clock.monotonic() + renewMs;
    try {
      await this.#look(due);
      next = Math.min(clock.monotonic() + renewMs, this.#nextDue());
    } catch (error) {
      this.#core.log.event("lease.sweep_failed", { error: messageOf(error) });
      next = clock.monotonic() + RETRY_MS;
    }
    this.#busy = false;
    if (this.#core.state === "open") this.#arm(Math.max(next, clock.monotonic() + LEAST_MS));
  }

  /** Look until one look was over in time: what comes while the server stands still in one is no silence either. */
  async #look(planned: number): Promise<void> {
    const { clock } = this.#core;
    let due = planned;
    do {
      const began = { monotonic: clock.monotonic(), wall: clock.now() };
      try {
        if (this.#wasAway(due)) await this.#forgive("absent");
        else await this.#judge(due);
        await this.#upkeep();
      } finally {
        this.#set = began;
        due = began.monotonic;
        this.#missed = this.#wasAway(due);
      }
    } while (this.#missed && this.#core.state === "open");
  }

  /** Whether nobody could be heard for longer than the grace period, because the server itself did not run. */
  #wasAway(due: number): boolean {
    if (this.#missed) return true;
    const { clock, graceMs } = this.#core;
    const now = clock.monotonic();
    const late = now - due;
    // A suspended machine's monotonic clock may stand still meanwhile.
    const asleep = clock.now() - this.#set.wall - (now - this.#set.monotonic);
    return late > graceMs || asleep > graceMs;
  }

  /** Give every live lease a full period, and everybody who holds one. */
  async #forgive(event: "absent" | "mass_silence"): Promise<void> {
    const core = this.#core;
    this.#missed = false;
    const now = core.clock.monotonic();
    for (const lease of core.roster.live.values()) lease.renewed = now;
    for (const member of core.roster.all()) if (member.live.size > 0) member.heard = now;
    const leases = core.roster.live.size;
    core.log.event(`lease.${event}`, { leases });
    if (leases === 0) return;
    await core.db.write((tx) => record(tx, core.wall(), { event, fields: { leases } }));
  }

  async #judge(planned: number): Promise<void> {
    const core = this.#core;
    let now = core.clock.monotonic();
    const silent: Member[] = [];
    for (const member of core.roster.all()) {
      if (
        member.live.size > 0 && !member.unreachable && now - member.heard >= core.graceOf(member)
      ) {
        silent.push(member);
      }
    }
    for (const member of silent) await this.#markUnreachable(member);
    if (this.#wasAway(planned)) return await this.#forgive("absent");
    now = core.clock.monotonic();
    const due: LiveLease[] = [];
    for (const lease of core.roster.live.values()) {
      if (now - lease.renewed >= core.tolerationOf(lease)) due.push(lease);
    }
    if (due.length > 0 && this.#isMassSilence(now)) return await this.#forgive("mass_silence");
    const failures: unknown[] = [];
    for (let from = 0; from < due.length; from += EXPIRED_AT_ONCE) {
      const some = due.slice(from, from + EXPIRED_AT_ONCE);
      for (const result of await Promise.allSettled(some.map((lease) => this.#expire(lease)))) {
        if (result.status === "rejected") failures.push(result.reason);
      }
    }
    // After all of them were tried: one that cannot end must not keep the others.
    if (failures.length > 0) throw failures[0];
  }

  /**
   * Whether every remote worker that holds a lease, of several, fell silent: then the network is at fault rather than
   * all of them. They are forgiven once, so that jobs come back after a second toleration at the latest.
   */
  #isMassSilence(now: number): boolean {
    let holders = 0;
    for (const member of this.#core.roster.all()) {
      if (member.local || member.left) continue;
      if (now - member.heard < this.#core.graceOf(member)) {
        this.#forgiven = false;
        return false;
      }
      if (member.live.size > 0) holders++;
    }
    if (holders < 2 || this.#forgiven) return false;
    this.#forgiven = true;
    return true;
  }

  async #markUnreachable(member: Member): Promise<void> {
    const core = this.#core;
    const marked = await core.db.write(async (tx) => {
      // A heartbeat that came first has won.
      const silence = core.clock.monotonic() - member.heard;
      if (silence < core.graceOf(member) || member.unreachable) return false;
      for (const lease of member.live.values()) {
        await record(tx, core.wall(), {
          event: "unreachable",
          job: lease.job,
          lease: lease.id,
          worker: member.name,
          fields: { seconds: Math.floor(silence / 1000) },
        });
      }
      tx.onCommit(() => {
        member.unreachable = true;
        for (const lease of member.live.values()) core.watchers.changed(lease.job);
      });
      return true;
    });
    if (marked) core.log.event("worker.silent", { worker: member.name });
  }

  async #expire(lease: LiveLease): Promise<void> {
    const core = this.#core;
    const reason = await core.write(async (tx) => {
      // A heartbeat or a report that came first has won.
      const silence = core.clock.monotonic() - lease.renewed;
      if (silence < core.tolerationOf(lease)) return null;
      const row = await leaseById(tx, lease.id);
      if (row === null || !isLive(row)) {
        // Somebody else ended it in the database: memory must not ask again and again.
        tx.onCommit(() => core.ended(lease.id, lease.job));
        return null;
      }
      const text = `its worker ${lease.worker} was silent for ${
        Math.floor(silence / 1000)
      } seconds`;
      await loseLease(core, tx, row, "silence", text);
      return text;
    });
    if (reason === null) return;
    core.log.event("lease.expired", { lease: lease.id, job: lease.job, reason });
  }

  /** When the next worker may become unreachable, or the next lease expire. */
  #nextDue(): number {
    const core = this.#core;
    let next = Infinity;
    for (const member of core.roster.all()) {
      if (member.live.size > 0 && !member.unreachable) {
        next = Math.min(next, member.heard + core.graceOf(member));
      }
    }
    for (const lease of core.roster.live.values()) {
      next = Math.min(next, lease.renewed + core.tolerationOf(lease));
    }
    return next;
  }

  /** Delete what was over long enough ago. */
  async #forget(): Promise<void> {
    const core = this.#core;
    const before = core.wall() - core.keepMs;
    if (!Number.isFinite(before)) return;
    let jobs = 0;
    for (let round = 0; round < PRUNE_ROUNDS; round++) {
      const pruned = await core.db.write((tx) => pruneJobs(tx, before));
      if (pruned === 0) break;
      jobs += pruned;
    }
    const workers = await pruneWorkers(core, before);
    if (jobs > 0 || workers.length > 0) core.log.event("lease.pruned", { jobs, workers });
  }

  async #upkeep(): Promise<void> {
    const core = this.#core;
    if (core.clock.monotonic() < this.#upkeepAt) return;
    this.#upkeepAt = core.clock.monotonic() + UPKEEP_MS;
    await writeDown(core);
    await core.db.write((tx) => pruneMail(tx));
    for (let round = 0; round < PRUNE_ROUNDS; round++) {
      if (await core.db.write((tx) => pruneEvents(tx)) === 0) break;
    }
    await this.#forget();
  }
}
