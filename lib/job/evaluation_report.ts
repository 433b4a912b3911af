/** @module Judging an evaluation's report from the wire. */

import { safeRelative, SubletError } from "../home/mod.ts";
import { type EvaluationReport, evaluationReport } from "./shapes.ts";

/** Bounds of a report: its runs of a side, metrics of a run, and log files. */
const MAX_RUNS = 1000;
const MAX_METRICS = 10_000;
const MAX_FILES = 100_000;
/** Tables within tables of a report: samples, their units, and the unit's numbers. */
const MAX_DEPTH = 6;

/**
 * The report that `value` is. Throws `unsafe_path` for a file's path that could leave its root, and `invalid_body` for
 * anything else that is wrong.
 */
export function parseEvaluationReport(value: unknown): EvaluationReport {
  const files = isTable(value) ? value["files"] : undefined;
  if (isTable(files)) {
    for (const path of Object.keys(files)) safeRelative(path, "files of the report");
  }
  checkKeys(value);
  const checked = evaluationReport.safeParse(value);
  if (!checked.success) {
    const [issue] = checked.error.issues;
    const where = issue?.path.map(String).join(".") || "the report";
    throw new SubletError("invalid_body", `${where}: ${issue?.message ?? "is not valid"}`);
  }
  const report = checked.data;
  bounded("samples", report.samples.length, MAX_RUNS);
  bounded("bar_samples", report.bar_samples.length, MAX_RUNS);
  bounded("files", Object.keys(report.files).length, MAX_FILES);
  for (const sample of [...report.samples, ...report.bar_samples]) {
    bounded("metrics", Object.keys(sample.metrics).length, MAX_METRICS);
  }
  return report;
}

/** A table that is read as JSON drops the key `__proto__`, so what it names would vanish: throws `invalid_body`. */
function checkKeys(value: unknown, depth = 0): void {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return;
  if (!Array.isArray(value) && Object.hasOwn(value, "__proto__")) {
    throw new SubletError("invalid_body", "the report names something __proto__: rename it");
  }
  for (const each of Object.values(value)) checkKeys(each, depth + 1);
}

function bounded(what: string, count: number, most: number): void {
  if (count <= most) return;
  throw new SubletError(
    "invalid_body",
    `${what}: holds ${count} entries, and at most ${most} are taken`,
  );
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
