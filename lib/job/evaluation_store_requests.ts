/** @module The rows of evaluations: asking for one, and handing it to the queue. */

import type { Row, Tx } from "../store/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Candidate } from "./campaign_store.ts";
import type { EvaluationJob, Source } from "./shapes.ts";

/** What to measure. */
export interface NewEvaluation {
  readonly campaign: number;
  readonly candidate: Candidate;
  readonly artifact: Source;
  readonly bar: { readonly candidate: Candidate; readonly artifact: Source } | null;
  readonly evaluator: string;
  readonly barEvaluator: string | null;
  readonly command: readonly string[];
  readonly timeout: number;
  readonly required: readonly string[];
  readonly repeats: number;
  readonly pool: string | null;
  readonly priority: number;
  /** Names the request that it is of. */
  readonly dedup?: string | null;
}

/** An evaluation that has no job yet. */
export interface Unsubmitted {
  readonly id: number;
  readonly campaign: number;
  readonly pool: string | null;
  readonly priority: number;
  /** Its job, as JSON text. */
  readonly text: string;
}

/** Make the row of an evaluation, with its job's JSON for {@linkcode unsubmitted}. */
export async function insertEvaluation(
  tx: Tx,
  wanted: NewEvaluation,
  now: number,
): Promise<Unsubmitted> {
  const { campaign, candidate, bar, pool, priority } = wanted;
  const row = await tx.get<Row & { id: number }>(
    `INSERT INTO evaluations
       (campaign, candidate, bar, evaluator, bar_evaluator, repeats, required, pool, priority,
        dedup, requested_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
    [
      campaign,
      candidate.id,
      bar?.candidate.id ?? null,
      wanted.evaluator,
      wanted.barEvaluator,
      wanted.repeats,
      JSON.stringify(wanted.required),
      pool,
      priority,
      wanted.dedup ?? null,
      now,
    ],
  );
  if (row === null) throw new SubletError("internal", "the evaluation was not stored");
  const text = JSON.stringify(jobOf(row.id, wanted));
  await tx.run("UPDATE evaluations SET job_text = ? WHERE id = ?", [text, row.id]);
  return { id: row.id, campaign, pool, priority, text };
}

/**
 * The evaluations of the request that `dedup` names in a campaign, in the order in which they were asked for; none when
 * there was no such request. Throws `conflict` when it asked for others than `candidates` beside `bar`.
 */
export async function requestedBefore(
  tx: Tx,
  campaign: number,
  dedup: string,
  asked: {
    readonly candidates: readonly number[];
    readonly bar: number | null;
    readonly repeats: number;
  },
): Promise<number[]> {
  const rows = await tx.all<
    Row & { id: number; candidate: number; bar: number | null; repeats: number }
  >(
    `SELECT id, candidate, bar, repeats FROM evaluations WHERE campaign = ? AND dedup = ?
     ORDER BY id`,
    [campaign, dedup],
  );
  const same = rows.length === asked.candidates.length &&
    rows.every(({ candidate, bar, repeats }, index) =>
      candidate === asked.candidates[index] && bar === asked.bar && repeats === asked.repeats
    );
  if (rows.length === 0 || same) return rows.map(({ id }) => id);
  throw new SubletError(
    "conflict",
    `the request ${
      JSON.stringify(dedup)
    } asked for something else before: give this one another key`,
  );
}

/** The job of an evaluation, in the shape that piloop 0.3.1's workers take too. */
function jobOf(id: number, wanted: NewEvaluation): EvaluationJob {
  return {
    kind: "evaluation",
    evaluation: id,
    candidate: wanted.candidate.id,
    run: null,
    runner: "process",
    artifact: wanted.artifact,
    place: `projects/${wanted.campaign}/measure/${wanted.candidate.id}-e${id}`,
    command: [...wanted.command],
    timeout: wanted.timeout,
    required: [...wanted.required],
    bar: wanted.bar === null
      ? null
      : { candidate: wanted.bar.candidate.id, artifact: wanted.bar.artifact },
    repeats: wanted.repeats,
  };
}

/** Evaluations that wait without a job: the server died before it submitted them. */
export async function unsubmitted(tx: Tx, limit: number): Promise<Unsubmitted[]> {
  return await tx.all<Row & Unsubmitted>(
    `SELECT id, campaign, pool, priority, job_text AS text FROM evaluations
     WHERE job IS NULL AND state = 'waiting' ORDER BY id LIMIT ?`,
    [limit],
  );
}

/** Whether evaluation `id` still has no job. */
export async function isUnsubmitted(tx: Tx, id: number): Promise<boolean> {
  const row = await tx.get(
    "SELECT 1 AS one FROM evaluations WHERE id = ? AND job IS NULL AND state = 'waiting'",
    [id],
  );
  return row !== null;
}

/** Evaluation `id` is job `job` now. */
export async function setJob(tx: Tx, id: number, job: number): Promise<void> {
  await tx.run("UPDATE evaluations SET job = ?, job_text = NULL WHERE id = ?", [job, id]);
}

/** Remove those of `ids` that still have no job: asking for them failed. */
export async function forgetUnsubmitted(tx: Tx, ids: readonly number[]): Promise<void> {
  for (const id of ids) {
    await tx.run("DELETE FROM evaluations WHERE id = ? AND job IS NULL AND state = 'waiting'", [
      id,
    ]);
  }
}
