/** @module The rows of evaluations: what a comparison reads, and keeping what it came to. */

import type { Row, Tx } from "../store/mod.ts";
import type { StoredComparison, StoredSample } from "./evaluation_store.ts";
import type { Sample } from "./shapes.ts";

/** An evaluation that ended and is not compared yet. */
export interface Uncompared {
  readonly campaign: number;
  /** The bar's revision. */
  readonly against: string;
  readonly evaluatorChanged: boolean;
  readonly samples: readonly Sample[];
  readonly barSamples: readonly Sample[];
}

interface UncomparedRow extends Row {
  campaign: number;
  against: string;
  evaluator: string;
  bar_evaluator: string;
  samples: string;
  bar_samples: string;
}

const LACKS = "bar IS NOT NULL AND comparison IS NULL AND state IN ('measured', 'failed')";

/** Ids of evaluations that ended and are not compared yet. */
export async function uncomparedIds(tx: Tx): Promise<number[]> {
  const rows = await tx.all<Row & { id: number }>(
    `SELECT id FROM evaluations WHERE ${LACKS} ORDER BY id`,
  );
  return rows.map(({ id }) => id);
}

/** What the comparison of evaluation `id` reads, or null when it has none to make. */
export async function readUncompared(tx: Tx, id: number): Promise<Uncompared | null> {
  const row = await tx.get<UncomparedRow>(
    `SELECT e.campaign, b.revision AS against, e.evaluator, e.bar_evaluator, e.samples, e.bar_samples
     FROM evaluations e JOIN candidates b ON b.id = e.bar WHERE e.id = ? AND ${LACKS}`,
    [id],
  );
  if (row === null) return null;
  const samples: StoredSample[] = JSON.parse(row.samples);
  const barSamples: StoredSample[] = JSON.parse(row.bar_samples);
  return {
    campaign: row.campaign,
    against: row.against,
    evaluatorChanged: row.evaluator !== row.bar_evaluator,
    samples: await withUnits(tx, id, "candidate", samples),
    barSamples: await withUnits(tx, id, "bar", barSamples),
  };
}

/** Keep the comparison of evaluation `id`, unless it was reopened meanwhile. */
export async function saveComparison(
  tx: Tx,
  id: number,
  comparison: StoredComparison,
): Promise<void> {
  await tx.run(`UPDATE evaluations SET comparison = ? WHERE id = ? AND ${LACKS}`, [
    JSON.stringify(comparison),
    id,
  ]);
}

async function withUnits(
  tx: Tx,
  id: number,
  side: "candidate" | "bar",
  samples: readonly StoredSample[],
): Promise<Sample[]> {
  const rows = await tx.all<Row & { run: number; units: string }>(
    "SELECT run, units FROM evaluation_units WHERE evaluation = ? AND side = ?",
    [id, side],
  );
  const units = new Map(rows.map((row) => [row.run, row.units]));
  return samples.map((sample, run) => ({
    ...sample,
    metrics: { ...sample.metrics },
    units: JSON.parse(units.get(run) ?? "{}"),
  }));
}
