/** @module A worker's own machine: while it is out of disk, or has just failed a job, the worker asks for none. */

import { type Clock, type Log, messageOf } from "../home/mod.ts";
import { type Mark, markNow, since } from "./worker_time.ts";
import type { HostSample } from "./wire.ts";

/** How long a worker asks for nothing after a fault of its machine; each fault in a row doubles it. */
const FIRST_MS = 30_000;
const MOST_MS = 600_000;

/** What keeps a worker off jobs that its machine could not do. */
export interface HostGuard {
  /** Bytes of the home's disk that must be free. */
  readonly reserve: number;
  /** Free this many bytes of the home's disk, as far as that can be done. */
  readonly makeRoom?: (bytes: number) => Promise<void>;
  /** Rejects while the home takes no files. Asked before the first job after a fault. */
  readonly check?: () => Promise<void>;
}

/** Whether the machine of a worker may have a job now. */
export class HostWatch {
  #faults = 0;
  #faulted: Mark | null = null;
  #holding = false;

  constructor(
    private readonly guard: HostGuard,
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly sample: () => Promise<HostSample>,
  ) {}

  /** A job could not be done, for a fault of this machine. */
  faulted(error: unknown): void {
    // Several jobs that failed at once tell of one fault.
    if (!this.#pauses()) {
      this.#faults++;
      this.#faulted = markNow(this.clock);
    }
    this.log.event("worker.host_fault", {
      error: messageOf(error),
      pause_seconds: Math.round(this.#pauseMs() / 1000),
    });
  }

  /** A job was done: earlier faults are over. */
  served(): void {
    this.#faults = 0;
    this.#faulted = null;
  }

  /** Whether the worker must ask for no job now. Says so when that changes. */
  async holds(): Promise<boolean> {
    const held = await this.#judge();
    if (this.#holding && !held) this.log.event("worker.host_ready");
    this.#holding = held;
    return held;
  }

  async #judge(): Promise<boolean> {
    if (this.#pauses()) return true;
    if (await this.#isFull()) return true;
    if (this.#faulted === null) return false;
    try {
      await this.guard.check?.();
      this.#faulted = null;
      return false;
    } catch (error) {
      this.faulted(error);
      return true;
    }
  }

  async #isFull(): Promise<boolean> {
    const { reserve, makeRoom } = this.guard;
    if (reserve === 0) return false;
    let free = (await this.sample()).disk_free;
    if (free < reserve && makeRoom !== undefined) {
      await makeRoom(reserve - free).catch((error) =>
        this.log.event("worker.no_room_made", { error: messageOf(error) })
      );
      free = (await this.sample()).disk_free;
    }
    if (free >= reserve) return false;
    if (!this.#holding) this.log.event("worker.disk_full", { free, reserve });
    return true;
  }

  #pauses(): boolean {
    return this.#faulted !== null && since(this.clock, this.#faulted) < this.#pauseMs();
  }

  #pauseMs(): number {
    return Math.min(FIRST_MS * 2 ** Math.min(this.#faults - 1, 10), MOST_MS);
  }
}
