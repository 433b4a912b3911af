/** @module Queued leases that may not be taken yet: a job that was lost waits a while before its next attempt. */

import { messageOf } from "../home/mod.ts";
import type { Row } from "../store/mod.ts";
import { Alarm } from "./alarm.ts";
import type { Core } from "./core.ts";

/** How many leases one transaction makes takeable, and how long a failed one waits. */
const AT_ONCE = 500;
const RETRY_MS = 1000;

/** The leases that wait for their time. Times are monotonic, so a wall clock that jumps changes nothing. */
export class Delayed {
  readonly #core: Core;
  readonly #alarm: Alarm;
  readonly #due = new Map<number, number>();
  #running: Promise<void> = Promise.resolve();

  constructor(core: Core) {
    this.#core = core;
    this.#alarm = new Alarm(core.clock, () => this.#running = this.#release());
  }

  get size(): number {
    return this.#due.size;
  }

  /** Lease `id` may be taken at `due`. */
  add(id: number, due: number): void {
    this.#due.set(id, due);
    this.#alarm.at(due);
  }

  /** Lease `id` is not queued any more. */
  remove(id: number): void {
    this.#due.delete(id);
  }

  /** Seconds until lease `id` may be taken, or null when it does not wait here. */
  left(id: number): number | null {
    const due = this.#due.get(id);
    return due === undefined ? null : Math.max(0, due - this.#core.clock.monotonic()) / 1000;
  }

  /** Take no more leases from here; resolves when the last transaction is over. */
  async close(): Promise<void> {
    this.#alarm.clear();
    this.#due.clear();
    await this.#running;
  }

  async #release(): Promise<void> {
    const now = this.#core.clock.monotonic();
    const ready = [...this.#due].filter(([, due]) => due <= now).map(([id]) => id);
    try {
      for (let from = 0; from < ready.length; from += AT_ONCE) {
        await this.#makeReady(ready.slice(from, from + AT_ONCE));
      }
    } catch (error) {
      this.#core.log.event("lease.delay_failed", { error: messageOf(error) });
    }
    if (this.#core.state === "open") this.#rearm(now + RETRY_MS);
  }

  #rearm(notBefore: number): void {
    let next = Infinity;
    for (const due of this.#due.values()) next = Math.min(next, due);
    if (next < Infinity) this.#alarm.at(Math.max(next, notBefore));
  }

  async #makeReady(ids: readonly number[]): Promise<void> {
    await this.#core.db.write(async (tx) => {
      for (const id of ids) {
        const row = await tx.get<Row & { lane: string; campaign: number }>(
          `UPDATE leases SET ready = 1, ready_at = NULL
           WHERE id = ? AND ready = 0 AND state = 'queued' RETURNING lane, campaign`,
          [id],
        );
        tx.onCommit(() => {
          this.#due.delete(id);
          if (row !== null) this.#core.takeable(row.lane, row.campaign);
        });
      }
    });
  }
}
