/**
 * @module Jobs that may run for so long only: one whose worker lives, but that has not reported in its time, is revoked.
 */

import { messageOf } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import { Alarm } from "./alarm.ts";
import { cancelJob } from "./cancel.ts";
import type { Core } from "./core.ts";
import type { LiveLease } from "./member.ts";

/** How long a revoke that failed waits for its next try. */
const RETRY_MS = 1000;
/** The longest that the alarm is set ahead: timers cannot count further than some weeks. */
const FARTHEST_MS = 86_400_000;

interface Deadline {
  readonly job: number;
  readonly timeoutMs: number;
  due: number;
}

/** The deadlines of live leases. Times are monotonic, so a wall clock that jumps ends no job. */
export class Deadlines {
  readonly #core: Core;
  readonly #alarm: Alarm;
  readonly #all = new Map<number, Deadline>();
  #running: Promise<void> = Promise.resolve();

  constructor(core: Core) {
    this.#core = core;
    this.#alarm = new Alarm(core.clock, () => this.#running = this.#revoke());
  }

  /** The job of `lease` has started. Later starts of the same lease do not count: the first one set the time. */
  started(lease: LiveLease): void {
    if (lease.timeoutMs === null || this.#all.has(lease.id)) return;
    this.#add(lease.id, lease.job, lease.timeoutMs, 0);
  }

  /** The lease is over. */
  remove(lease: number): void {
    this.#all.delete(lease);
  }

  /** Take over those of a database, when the server starts. */
  async adopt(tx: Tx): Promise<void> {
    const rows = await tx.all<
      Row & { id: number; job_id: number; timeout_ms: number; started_at: number }
    >(
      `SELECT l.id, l.job_id, j.timeout_ms, l.started_at FROM leases l JOIN jobs j ON j.id = l.job_id
       WHERE l.worker >= '' AND l.acquired_at IS NOT NULL AND l.ended_at IS NULL
         AND l.started_at IS NOT NULL AND l.revoked_at IS NULL AND j.timeout_ms IS NOT NULL`,
    );
    const wall = this.#core.wall();
    for (const { id, job_id, timeout_ms, started_at } of rows) {
      const elapsed = Math.min(Math.max(0, wall - started_at), timeout_ms);
      this.#add(id, job_id, timeout_ms, elapsed);
    }
  }

  /** Revoke nothing more; resolves when the last transaction is over. */
  async close(): Promise<void> {
    this.#alarm.clear();
    this.#all.clear();
    await this.#running;
    this.#alarm.clear();
  }

  /** A worker stops a job at its own time limit and reports: it gets the grace period to do so. */
  #add(lease: number, job: number, timeoutMs: number, elapsed: number): void {
    const { clock, graceMs } = this.#core;
    const due = clock.monotonic() + timeoutMs - elapsed + graceMs;
    this.#all.set(lease, { job, timeoutMs, due });
    this.#ringAt(due);
  }

  #ringAt(due: number): void {
    this.#alarm.at(Math.min(due, this.#core.clock.monotonic() + FARTHEST_MS));
  }

  async #revoke(): Promise<void> {
    const core = this.#core;
    const now = core.clock.monotonic();
    for (const [lease, deadline] of this.#all) {
      if (deadline.due > now) continue;
      const seconds = deadline.timeoutMs / 1000;
      const reason = `it ran for longer than its ${seconds} seconds, and did not report`;
      try {
        await core.db.write(async (tx) => {
          if (core.roster.live.has(lease)) await cancelJob(core, tx, deadline.job, reason);
        });
        this.#all.delete(lease);
        core.log.event("lease.timed_out", { lease, job: deadline.job, seconds });
      } catch (error) {
        core.log.event("lease.timeout_failed", { lease, error: messageOf(error) });
        deadline.due = core.clock.monotonic() + RETRY_MS;
      }
    }
    if (core.state !== "open") return;
    for (const { due } of this.#all.values()) this.#ringAt(due);
  }
}
