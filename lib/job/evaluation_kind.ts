/** @module The kind `evaluation` of the lease engine's jobs: it has the shape of `JobKind` in lib/lease. */

import type { Cid } from "../cas/mod.ts";
import { type Clock, SubletError } from "../home/mod.ts";
import type { Tx } from "../store/mod.ts";
import { parseEvaluationReport } from "./evaluation_report.ts";
import {
  endEvaluation,
  type Holder,
  loseEvaluation,
  recordReport,
  reopenEvaluation,
  startEvaluation,
} from "./evaluation_store_results.ts";
import type { EvaluationReport } from "./shapes.ts";

/** A job as the engine names it. */
interface Job extends Holder {
  /** The evaluation's id. */
  readonly key: string;
}

/** Evaluations as jobs. Its calls that get a `Tx` run in the transaction that changes the lease. */
export class EvaluationKind {
  readonly kind = "evaluation";
  readonly slots = "evaluations";
  readonly #clock: Clock;
  readonly #changed: (evaluation: number, paired: boolean) => void;

  /** `changed` is called once a change of an evaluation is durable; `paired`: it is to be compared now. */
  constructor(clock: Clock, changed: (evaluation: number, paired: boolean) => void) {
    this.#clock = clock;
    this.#changed = changed;
  }

  /** Judge a report from the wire. Throws `invalid_body` or `unsafe_path`. */
  parse(report: unknown): EvaluationReport {
    return parseEvaluationReport(report);
  }

  /** Every blob that a parsed report names. */
  blobs(report: unknown): Cid[] {
    return [...new Set(Object.values((report as EvaluationReport).files))];
  }

  /** Record a parsed report. Throws `stale_lease` when the evaluation ended already. */
  async apply(tx: Tx, job: Job, report: unknown): Promise<void> {
    const id = idOf(job);
    const now = this.#clock.now();
    const paired = await recordReport(tx, id, job, report as EvaluationReport, now);
    tx.onCommit(() => this.#changed(id, paired));
  }

  /** A worker runs it. Throws `stale_lease` when the evaluation ended already. */
  async started(tx: Tx, job: Job): Promise<void> {
    await startEvaluation(tx, this.#touch(tx, job), job, this.#clock.now());
  }

  /** An attempt was lost: it waits again. */
  async lost(tx: Tx, job: Job, _reason: string): Promise<void> {
    await loseEvaluation(tx, this.#touch(tx, job), job);
  }

  /** It ended without a report. */
  async ended(tx: Tx, job: Job, end: "dead" | "cancelled", reason: string): Promise<void> {
    const state = end === "dead" ? "failed" : "cancelled";
    const id = this.#touch(tx, job);
    await endEvaluation(tx, id, job, { state, error: reason }, this.#clock.now());
  }

  /** It is queued again, because somebody asked to try it again. Throws `conflict` when it was measured. */
  async retried(tx: Tx, job: Job): Promise<void> {
    await reopenEvaluation(tx, this.#touch(tx, job));
  }

  #touch(tx: Tx, job: Job): number {
    const id = idOf(job);
    tx.onCommit(() => this.#changed(id, false));
    return id;
  }
}

function idOf({ key }: Job): number {
  const id = Number(key);
  if (Number.isSafeInteger(id) && id > 0) return id;
  throw new SubletError("internal", `${JSON.stringify(key)} is no evaluation's id`);
}
