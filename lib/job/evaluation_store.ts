/** @module The rows of evaluations: what one is, and reading it. */

import type { Row, Tx, Value } from "../store/mod.ts";
import type { Comparison } from "./campaign_verdict.ts";

/** States of an evaluation; the last three are its end. */
export const EVALUATION_STATES = [
  "waiting",
  "running",
  "measured",
  "failed",
  "cancelled",
] as const;
/** A state of an evaluation. */
export type EvaluationState = (typeof EVALUATION_STATES)[number];

/** One run of the command, without its results by unit. */
export interface StoredSample {
  readonly metrics: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly error: string | null;
}

/** A comparison, with what it is worth. */
export interface StoredComparison extends Comparison {
  /** The bar's revision. */
  readonly against: string;
  /** Whether the two sides were measured by another command, script or linked data: their numbers mean two things. */
  readonly evaluator_changed: boolean;
}

/** An evaluation, as the HTTP API answers it. Times are ISO 8601 UTC. */
export interface Evaluation {
  /** The lease engine's job; null for the moment before it is submitted. */
  readonly job: number | null;
  readonly evaluation: number;
  /** The campaign's name. */
  readonly campaign: string;
  readonly revision: string;
  readonly subject: string;
  readonly state: EvaluationState;
  /** Means over the successful runs. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly worker: string | null;
  readonly lease: number | null;
  /** How many leases it had. */
  readonly attempts: number;
  /** Seconds that the command ran, over all runs of both sides. Null: no report yet. */
  readonly seconds: number | null;
  readonly error: string | null;
  /** Log files by path: the address of each. */
  readonly files: Readonly<Record<string, string>>;
  readonly samples: readonly StoredSample[];
  readonly bar_samples: readonly StoredSample[];
  readonly comparison: StoredComparison | null;
  readonly repeats: number;
  /** The bar's revision. Null: it is measured alone. */
  readonly against: string | null;
  /** What measures, as a hash: scores of two evaluators are not comparable. */
  readonly evaluator: string;
  readonly requested_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
}

/** Which evaluations a list holds. */
export interface EvaluationFilter {
  readonly campaign?: number;
  readonly state?: EvaluationState;
  /** Only those with a smaller id: lists go from new to old. */
  readonly before?: number;
  readonly limit: number;
}

interface EvaluationRow extends Row {
  id: number;
  job: number | null;
  campaign: string;
  revision: string;
  subject: string;
  against: string | null;
  state: string;
  metrics: string;
  worker: string | null;
  lease: number | null;
  attempts: number;
  seconds: number | null;
  error: string | null;
  files: string;
  samples: string;
  bar_samples: string;
  comparison: string | null;
  repeats: number;
  evaluator: string;
  requested_at: number;
  started_at: number | null;
  ended_at: number | null;
}

const SELECT =
  `SELECT e.id, e.job, p.name AS campaign, c.revision, c.subject, b.revision AS against,
    e.state, e.metrics, e.worker, e.lease, e.attempts, e.seconds, e.error, e.files, e.samples,
    e.bar_samples, e.comparison, e.repeats, e.evaluator, e.requested_at, e.started_at, e.ended_at
  FROM evaluations e
  JOIN campaigns p ON p.id = e.campaign
  JOIN candidates c ON c.id = e.candidate
  LEFT JOIN candidates b ON b.id = e.bar`;

/** Whether a state is an end. */
export function hasEnded(state: EvaluationState): boolean {
  return state !== "waiting" && state !== "running";
}

/** The evaluation `id`, or null. */
export async function readEvaluation(tx: Tx, id: number): Promise<Evaluation | null> {
  const row = await tx.get<EvaluationRow>(`${SELECT} WHERE e.id = ?`, [id]);
  return row === null ? null : fromRow(row);
}

/** The evaluation of a job, or null. */
export async function evaluationOfJob(tx: Tx, job: number): Promise<Evaluation | null> {
  const row = await tx.get<EvaluationRow>(`${SELECT} WHERE e.job = ?`, [job]);
  return row === null ? null : fromRow(row);
}

/** Evaluations from new to old. */
export async function listEvaluations(tx: Tx, filter: EvaluationFilter): Promise<Evaluation[]> {
  const conditions: string[] = [];
  const params: Value[] = [];
  const add = (condition: string, value: Value | undefined) => {
    if (value === undefined) return;
    conditions.push(condition);
    params.push(value);
  };
  add("e.campaign = ?", filter.campaign);
  add("e.state = ?", filter.state);
  add("e.id < ?", filter.before);
  const where = conditions.length === 0 ? "" : ` WHERE ${conditions.join(" AND ")}`;
  const rows = await tx.all<EvaluationRow>(`${SELECT}${where} ORDER BY e.id DESC LIMIT ?`, [
    ...params,
    filter.limit,
  ]);
  return rows.map(fromRow);
}

/** How many evaluations a campaign has in each state. */
export async function countEvaluations(
  tx: Tx,
  campaign: number,
): Promise<Record<EvaluationState, number>> {
  const counts = { waiting: 0, running: 0, measured: 0, failed: 0, cancelled: 0 };
  const rows = await tx.all<Row & { state: EvaluationState; n: number }>(
    "SELECT state, count(*) AS n FROM evaluations WHERE campaign = ? GROUP BY state",
    [campaign],
  );
  for (const { state, n } of rows) counts[state] = n;
  return counts;
}

function fromRow(row: EvaluationRow): Evaluation {
  const { id, state, metrics, files, samples, bar_samples, comparison, ...rest } = row;
  return {
    ...rest,
    evaluation: id,
    state: state as EvaluationState,
    metrics: JSON.parse(metrics),
    files: JSON.parse(files),
    samples: JSON.parse(samples),
    bar_samples: JSON.parse(bar_samples),
    comparison: comparison === null ? null : JSON.parse(comparison),
    requested_at: iso(row.requested_at),
    started_at: row.started_at === null ? null : iso(row.started_at),
    ended_at: row.ended_at === null ? null : iso(row.ended_at),
  };
}

/** Milliseconds since 1970 as ISO 8601 UTC. */
export function iso(ms: number): string {
  return new Date(ms).toISOString();
}
