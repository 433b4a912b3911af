/** @module What a worker finished goes to the server: kept first, then sent until it is accepted or refused. */

import { isError, messageOf } from "../home/mod.ts";
import { UnexplainedStatus } from "./http_client_refusal.ts";
import type { SpoolEntry } from "./spool.ts";
import { type WorkerCore } from "./worker_core.ts";
import { runnerOf } from "./worker_job.ts";
import { Backoff, Wake } from "./worker_time.ts";

const SEND_SECONDS = 30;
/** How long the last try of a worker on its way out may take. */
const LAST_SECONDS = 5;
/** How many sends run at once. */
const MAX_SENDS = 4;
/** After so many answers that no server of ours gives, an entry is set aside and its job given back. */
const MAX_UNEXPLAINED = 20;
/** Refusals of what a report says: another try cannot cure them. */
const UNACCEPTABLE = [
  "invalid_body",
  "invalid_request",
  "invalid_cid",
  "unsafe_path",
  "too_large",
] as const;

/** What one send came to. */
type Verdict = "settled" | "again" | { readonly giveBack: string };

/** The finished leases of a worker, each with a task of its own that sends it. */
export class Outbox {
  readonly #tasks = new Map<number, { readonly wake: Wake; readonly done: Promise<void> }>();
  readonly #sends = new AbortController();
  #sending = 0;
  readonly #waiting: (() => void)[] = [];
  #last = false;

  constructor(private readonly core: WorkerCore) {}

  /** Whether nothing is being sent, cleaned up or waited with. */
  get empty(): boolean {
    return this.#tasks.size === 0;
  }

  /** Keep and send `entry`. `kept`: it is in the spool already. */
  add(entry: SpoolEntry, kept = false): void {
    const wake = new Wake();
    const done = this.#deliver(entry, kept, wake).catch((error) => {
      this.core.log.event("report.failed", { lease: entry.lease, error });
    }).finally(() => {
      this.#tasks.delete(entry.lease);
      this.core.changed.set();
    });
    this.#tasks.set(entry.lease, { wake, done });
  }

  /** Whoever waits to try again does so now. */
  poke(): void {
    for (const { wake } of this.#tasks.values()) wake.set();
  }

  /** Try everything once more and then let it be: it stays in the spool. Repeatable. */
  lastTry(): void {
    if (this.#last) return;
    this.#last = true;
    this.poke();
  }

  /** Stop sending. What is not accepted stays in the spool. */
  close(): void {
    this.#last = true;
    this.#sends.abort();
    this.poke();
  }

  async #deliver(first: SpoolEntry, kept: boolean, wake: Wake): Promise<void> {
    const { core } = this;
    const backoff = new Backoff(core.ids);
    let entry = first;
    let safe = kept;
    let unexplained = 0;
    while (true) {
      if (!safe) safe = await this.#keep(entry);
      if (core.refusal !== null || this.#sends.signal.aborted) return;
      await core.registered.wait(this.#sends.signal);
      const verdict = await this.#turn(() => this.#send(entry, () => unexplained++));
      if (verdict === "settled") return await this.#settled(entry);
      if (typeof verdict === "object" || unexplained >= MAX_UNEXPLAINED) {
        const reason = typeof verdict === "object"
          ? verdict.giveBack
          : `its report was answered ${unexplained} times by something that is no server of this protocol`;
        entry = await this.#giveBack(entry, reason);
        safe = false;
        unexplained = 0;
        continue;
      }
      if (this.#last) return;
      await wake.wait(core.clock, backoff.next(), this.#sends.signal);
    }
  }

  /** Put `entry` into the spool; whether it is there. */
  async #keep(entry: SpoolEntry): Promise<boolean> {
    const { core } = this;
    try {
      await core.options.spool.keep(core.worker, entry);
      return true;
    } catch (error) {
      // A full disk: it is sent from memory, and kept as soon as that works.
      core.log.event("spool.failed", { lease: entry.lease, error });
      return false;
    }
  }

  /** Send now or when there is room. */
  async #turn(send: () => Promise<Verdict>): Promise<Verdict> {
    if (this.#sending >= MAX_SENDS) await new Promise<void>((go) => this.#waiting.push(go));
    this.#sending++;
    try {
      return await send();
    } finally {
      this.#sending--;
      this.#waiting.shift()?.();
    }
  }

  async #send(entry: SpoolEntry, unexplained: () => void): Promise<Verdict> {
    const { core } = this;
    const { lease, requestId, outcome } = entry;
    const seconds = this.#last ? LAST_SECONDS : SEND_SECONDS;
    const what = "report" in outcome ? "report" : "lost";
    try {
      await core.call(what, seconds, (signal) => {
        return "report" in outcome
          ? core.client.report(lease, requestId, outcome.report, signal)
          : core.client.lost(lease, outcome.lost, signal, outcome.hostFault);
      }, this.#sends.signal);
      core.log.event(`${what}.accepted`, { lease });
      return "settled";
    } catch (error) {
      if (error instanceof UnexplainedStatus) {
        unexplained();
        return "again";
      }
      const given = isError(error, "missing_blobs", ...UNACCEPTABLE);
      if (isError(error, "stale_lease") || (given && what === "lost")) {
        core.log.event(`${what}.refused`, { lease, code: error.code, error: messageOf(error) });
        return "settled";
      }
      return given ? { giveBack: messageOf(error) } : "again";
    }
  }

  /** The server cannot take the report: put it aside for a person, and say that the job is lost. */
  async #giveBack(entry: SpoolEntry, reason: string): Promise<SpoolEntry> {
    const { core } = this;
    core.log.event("report.refused", { lease: entry.lease, error: reason });
    try {
      await core.options.spool.setAside(core.worker, entry.lease);
    } catch (error) {
      core.log.event("spool.failed", { lease: entry.lease, error });
    }
    return { ...entry, requestId: core.ids.uuid(), outcome: { lost: reason } };
  }

  /** Accepted or refused: the lease is over, its slot free. Its leftovers go before its entry does. */
  async #settled(entry: SpoolEntry): Promise<void> {
    const { core } = this;
    core.held.delete(entry.lease);
    core.mayAcquire.set();
    await cleanUp(core, entry.job, entry.lease);
    try {
      await core.options.spool.drop(core.worker, entry.lease);
      await core.options.onSettled?.();
    } catch (error) {
      core.log.event("lease.not_cleaned", { lease: entry.lease, error });
    }
  }
}

/** Remove what the job left on this machine. */
export async function cleanUp(core: WorkerCore, job: unknown, lease: number): Promise<void> {
  if (job === null) return;
  try {
    await runnerOf(core, job).cleanup(job, lease);
  } catch (error) {
    core.log.event("lease.not_cleaned", { lease, error });
  }
}
