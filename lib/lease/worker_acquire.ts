/** @module A worker asks for leases: when there may be work, when a slot became free, and every renew period. */

import { messageOf } from "../home/mod.ts";
import { isUnanswered, type WorkerCore } from "./worker_core.ts";
import { Backoff, type Mark, markNow } from "./worker_time.ts";
import type { Grant, NoLease } from "./wire.ts";

const ACQUIRE_SECONDS = 30;
/** How long a worker that takes no more jobs waits to learn whether its last acquire got one. */
const LAST_SECONDS = 5;
/** A server that grants more leases than this to one worker is not believed. */
const MAX_HELD = 1_000;

/** The acquire loop's state. */
export class Acquirer {
  /**
   * An acquire that nobody knows the outcome of, and when it was first sent. The server answers a repeat of its id
   * with the same lease.
   */
  #pending: { readonly id: string; readonly asked: Mark } | null = null;
  readonly #backoff: Backoff;

  constructor(
    private readonly core: WorkerCore,
    /** Start the job of a grant that was asked for at `asked`, or give it back. */
    private readonly start: (grant: Grant, asked: Mark) => void,
  ) {
    this.#backoff = new Backoff(core.ids);
  }

  /** Whether a lease may be on its way to this worker. */
  get busy(): boolean {
    return this.#pending !== null;
  }

  /** Acquire until the worker takes no more jobs and no acquire is open. */
  async loop(): Promise<void> {
    const { core } = this;
    const { signal } = core.over;
    while (!signal.aborted && core.mode === "working") {
      await core.registered.wait(signal);
      const pause = await this.#burst();
      if (core.mode === "working") await core.mayAcquire.wait(core.clock, pause, signal);
    }
    if (this.#pending !== null && core.refusal === null && !signal.aborted) {
      await this.#try(LAST_SECONDS);
      this.#pending = null;
    }
    core.changed.set();
  }

  /** Acquire until there is a reason not to; the milliseconds to wait before the next burst. */
  async #burst(): Promise<number> {
    const { core } = this;
    const renewMs = core.timing.renew * 1000;
    while (core.mode === "working" && core.registered.isOpen && !core.over.signal.aborted) {
      if (core.held.size >= MAX_HELD) return renewMs;
      const answer = await this.#try(ACQUIRE_SECONDS);
      if (answer === "held") return renewMs;
      if (answer === null) return Math.min(this.#backoff.next(), renewMs);
      this.#backoff.reset();
      if (answer === "draining") core.drainByServer();
      if (typeof answer === "string") return renewMs;
    }
    return renewMs;
  }

  /** One try. A grant is started; null when nobody knows whether there is one. `held`: this machine can do no job. */
  async #try(seconds: number): Promise<Grant | NoLease | "held" | null> {
    const { core } = this;
    const repeated = this.#pending !== null;
    try {
      // What was asked for already may have been granted: that must be known first.
      if (!repeated && await core.host.holds()) return "held";
      const sample = await core.sample();
      const { id, asked } = this.#pending ??= { id: core.ids.uuid(), asked: markNow(core.clock) };
      const answer = await core.call(
        "acquire",
        seconds,
        (signal) => core.client.acquire(id, sample, signal),
      );
      this.#pending = null;
      if (typeof answer !== "string") this.start(answer, asked);
      // The lease of an old acquire may be gone: a heartbeat tells.
      if (repeated) core.mustBeat.set();
      return answer;
    } catch (error) {
      // A typed refusal is an answer: this acquire got nothing.
      if (!isUnanswered(error)) {
        this.#pending = null;
        core.log.event("worker.acquire_failed", { error: messageOf(error) });
      }
      return null;
    }
  }
}
