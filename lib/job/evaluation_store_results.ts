/** @module The rows of evaluations: what happens to one while its job runs, and how it ends. */

import { SubletError } from "../home/mod.ts";
import type { Row, Tx, Value } from "../store/mod.ts";
import { meansOf } from "./campaign_compare.ts";
import { type EvaluationState, hasEnded, type StoredSample } from "./evaluation_store.ts";
import { cleanText } from "./report_checks.ts";
import type { EvaluationReport, Sample } from "./shapes.ts";
import { forgetStreams } from "./stream_store.ts";

/** Characters of an error that are kept. */
const MAX_ERROR = 8_000;

/** A lease of an evaluation's job: its fencing token, and who holds it. Nobody: it was not taken yet. */
export interface Holder {
  readonly lease: number;
  readonly worker: string | null;
  /** Why somebody cancelled the job while it ran: its report counts, and is no success. */
  readonly revoked?: string;
}

interface Current extends Row {
  state: EvaluationState;
  repeats: number;
  required: string;
  bar: number | null;
}

async function current(tx: Tx, id: number): Promise<Current | null> {
  return await tx.get<Current>(
    "SELECT state, repeats, required, bar FROM evaluations WHERE id = ?",
    [id],
  );
}

async function open(tx: Tx, id: number): Promise<Current> {
  const row = await current(tx, id);
  if (row === null || hasEnded(row.state)) {
    const why = row === null ? "is not known" : `is ${row.state} already`;
    throw new SubletError("stale_lease", `evaluation ${id} ${why}: drop this job`);
  }
  return row;
}

/** Set columns of an open evaluation. A lease that it did not have before is one more attempt. */
async function update(
  tx: Tx,
  id: number,
  holder: Holder,
  columns: Readonly<Record<string, Value>>,
): Promise<void> {
  const names = Object.keys(columns);
  const lease = holder.worker === null ? null : holder.lease;
  await tx.run(
    `UPDATE evaluations SET
       attempts = attempts + CASE WHEN ? IS NOT NULL AND lease IS NOT ? THEN 1 ELSE 0 END,
       lease = coalesce(?, lease), ${names.map((name) => `${name} = ?`).join(", ")}
     WHERE id = ?`,
    [lease, lease, lease, ...names.map((name) => columns[name] ?? null), id],
  );
}

/** A worker runs it. Throws `stale_lease` when it ended already. */
export async function startEvaluation(
  tx: Tx,
  id: number,
  holder: Holder,
  now: number,
): Promise<void> {
  await open(tx, id);
  await update(tx, id, holder, { state: "running", worker: holder.worker, started_at: now });
}

/** An attempt was lost: it waits again. Nothing changes when it ended already. */
export async function loseEvaluation(tx: Tx, id: number, holder: Holder): Promise<void> {
  const row = await current(tx, id);
  if (row === null || hasEnded(row.state)) return;
  await update(tx, id, holder, { state: "waiting", worker: null, started_at: null });
}

/** It ended without a report. Nothing changes when it ended already. */
export async function endEvaluation(
  tx: Tx,
  id: number,
  holder: Holder,
  end: { readonly state: "failed" | "cancelled"; readonly error: string },
  now: number,
): Promise<void> {
  const row = await current(tx, id);
  if (row === null || hasEnded(row.state)) return;
  await update(tx, id, holder, {
    state: end.state,
    error: cleanText(end.error, MAX_ERROR),
    ended_at: now,
    ...(holder.worker === null ? {} : { worker: holder.worker }),
  });
}

/** Its job is queued again: an evaluation that failed or was cancelled waits again, empty. Throws `conflict`. */
export async function reopenEvaluation(tx: Tx, id: number): Promise<void> {
  const reopened = await tx.run(
    `UPDATE evaluations SET state = 'waiting', worker = NULL, metrics = '{}', samples = '[]',
       bar_samples = '[]', files = '{}', error = NULL, seconds = NULL, comparison = NULL,
       started_at = NULL, ended_at = NULL
     WHERE id = ? AND state IN ('failed', 'cancelled')`,
    [id],
  );
  if (reopened === 0) {
    throw new SubletError("conflict", `evaluation ${id} did not fail: ask for a new one instead`);
  }
  await tx.run("DELETE FROM evaluation_units WHERE evaluation = ?", [id]);
}

/**
 * Record what a worker measured. It is `measured` when every run of both sides succeeded and none is lacking, and nobody
 * cancelled its job. Returns whether it is to be compared with its bar. Throws `stale_lease` when it ended already.
 */
export async function recordReport(
  tx: Tx,
  id: number,
  holder: Holder,
  report: EvaluationReport,
  now: number,
): Promise<boolean> {
  const row = await open(tx, id);
  const fault = faultOf(row, report);
  const cancelled = holder.revoked !== undefined;
  const state = cancelled ? "cancelled" : fault === null ? "measured" : "failed";
  const error = holder.revoked ?? fault;
  const runs = [...report.samples, ...report.bar_samples];
  await update(tx, id, holder, {
    state,
    worker: holder.worker,
    metrics: JSON.stringify(meansOf(report.samples)),
    samples: JSON.stringify(report.samples.map(withoutUnits)),
    bar_samples: JSON.stringify(report.bar_samples.map(withoutUnits)),
    files: JSON.stringify(report.files),
    error: error === null ? null : cleanText(error, MAX_ERROR),
    seconds: runs.reduce((sum, run) => sum + run.seconds, 0),
    ended_at: now,
  });
  await forgetStreams(tx, holder.lease, Object.keys(report.files));
  await saveUnits(tx, id, "candidate", report.samples);
  await saveUnits(tx, id, "bar", report.bar_samples);
  return row.bar !== null && state !== "cancelled";
}

/** Why a report measures nothing, or null. */
function faultOf(row: Current, report: EvaluationReport): string | null {
  const required: string[] = JSON.parse(row.required);
  const sides: [string, readonly Sample[], number][] = [
    ["", report.samples, row.repeats],
    ["bar: ", report.bar_samples, row.bar === null ? 0 : row.repeats],
  ];
  for (const [side, samples, wanted] of sides) {
    for (const sample of samples) {
      if (sample.error !== null) return `${side}${sample.error}`;
      const lacking = required.filter((name) => !Object.hasOwn(sample.metrics, name));
      if (lacking.length > 0) return `${side}no METRIC line for ${lacking.join(", ")}`;
    }
    if (samples.length !== wanted) {
      return `${side}the worker reports ${samples.length} of ${wanted} runs`;
    }
  }
  return null;
}

async function saveUnits(
  tx: Tx,
  id: number,
  side: "candidate" | "bar",
  samples: readonly Sample[],
): Promise<void> {
  for (const [run, { units }] of samples.entries()) {
    if (Object.keys(units).length === 0) continue;
    await tx.run(
      "INSERT INTO evaluation_units (evaluation, side, run, units) VALUES (?, ?, ?, ?)",
      [id, side, run, JSON.stringify(units)],
    );
  }
}

function withoutUnits(sample: Sample): StoredSample {
  const { metrics, seconds, error } = sample;
  return { metrics, seconds, error: error === null ? null : cleanText(error, MAX_ERROR) };
}
