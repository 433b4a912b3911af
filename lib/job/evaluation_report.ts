/** @module Judging an evaluation's report from the wire. */

import { safeRelative, SubletError } from "../home/mod.ts";
import { bounded, checkKeys, isTable, MAX_FILES } from "./report_checks.ts";
import { type EvaluationReport, evaluationReport } from "./shapes.ts";

/** Bounds of a report: its runs of a side, and metrics of a run. */
const MAX_RUNS = 1000;
const MAX_METRICS = 10_000;

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
