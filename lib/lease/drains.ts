/**
 * @module Workers that are to be empty by some time: what a drained worker still holds then is taken from it, and its
 * jobs are queued again. It stops them as soon as it hears that its leases are stale.
 */

import { messageOf } from "../home/mod.ts";
import { Alarm } from "./alarm.ts";
import type { Core } from "./core.ts";
import { loseLease } from "./ending.ts";
import { isLive, leaseById } from "./fence.ts";

const RETRY_MS = 1000;
/** The longest that the alarm is set ahead: timers cannot count further than some weeks. */
const FARTHEST_MS = 86_400_000;

/** The deadlines of drains, by worker. Times are monotonic, so a wall clock that jumps takes nothing from anybody. */
export class Drains {
  readonly #core: Core;
  readonly #alarm: Alarm;
  readonly #due = new Map<string, number>();
  #running: Promise<void> = Promise.resolve();

  constructor(core: Core) {
    this.#core = core;
    this.#alarm = new Alarm(core.clock, () => this.#running = this.#take());
  }

  /** `worker` is to be empty in `ms` milliseconds. */
  add(worker: string, ms: number): void {
    const due = this.#core.clock.monotonic() + Math.max(0, ms);
    this.#due.set(worker, due);
    this.#ringAt(due);
  }

  /** `worker` may keep what it has. */
  remove(worker: string): void {
    this.#due.delete(worker);
  }

  /** Take over what memory knows of workers, when the server starts. */
  adopt(): void {
    for (const { name, drainBy } of this.#core.roster.all()) {
      if (drainBy !== null) this.add(name, drainBy - this.#core.clock.now());
    }
  }

  /** Take nothing more; resolves when the last transaction is over. */
  async close(): Promise<void> {
    this.#alarm.clear();
    this.#due.clear();
    await this.#running;
    this.#alarm.clear();
  }

  #ringAt(due: number): void {
    this.#alarm.at(Math.min(due, this.#core.clock.monotonic() + FARTHEST_MS));
  }

  async #take(): Promise<void> {
    const core = this.#core;
    const now = core.clock.monotonic();
    for (const [worker, due] of this.#due) {
      if (due > now) continue;
      try {
        const held = [...core.roster.get(worker)?.live.keys() ?? []];
        for (const lease of held) await this.#lose(worker, lease);
        this.#due.delete(worker);
      } catch (error) {
        core.log.event("lease.drain_failed", { worker, error: messageOf(error) });
        this.#due.set(worker, core.clock.monotonic() + RETRY_MS);
      }
    }
    if (core.state !== "open") return;
    for (const due of this.#due.values()) this.#ringAt(due);
  }

  async #lose(worker: string, lease: number): Promise<void> {
    await this.#core.write(async (tx) => {
      const row = await leaseById(tx, lease);
      if (row === null || !isLive(row) || row.worker !== worker) return;
      const reason = `its worker ${worker} had to be drained by then`;
      await loseLease(this.#core, tx, row, "worker", reason);
    });
    this.#core.log.event("lease.drained", { lease, worker });
  }
}
