/** @module Judging an agent's report from the wire. */

import { safeRelative, SubletError } from "../home/mod.ts";
import { type AgentReport, agentReport } from "./agent_shapes.ts";
import { bounded, checkKeys, isTable, MAX_FILES } from "./report_checks.ts";

/** Prompts of one agent. */
const MAX_PROMPTS = 10_000;

/**
 * The report that `value` is. Throws `unsafe_path` for a path that could leave its root, and `invalid_body` for anything
 * else that is wrong.
 */
export function parseAgentReport(value: unknown): AgentReport {
  checkPaths(value);
  checkKeys(value);
  const checked = agentReport.safeParse(value);
  if (!checked.success) {
    const [issue] = checked.error.issues;
    const where = issue?.path.map(String).join(".") || "the report";
    throw new SubletError("invalid_body", `${where}: ${issue?.message ?? "is not valid"}`);
  }
  const report = checked.data;
  bounded("files", Object.keys(report.files).length, MAX_FILES);
  if (report.kind === "agent_not_started") return report;
  bounded("workspace", Object.keys(report.workspace).length, MAX_FILES);
  bounded("read", report.read.length, MAX_PROMPTS);
  bounded("unread", report.unread.length, MAX_PROMPTS);
  return report;
}

/** Paths say that they are unsafe, whatever else is wrong. */
function checkPaths(value: unknown): void {
  if (!isTable(value)) return;
  for (const key of ["files", "workspace"]) {
    const table = value[key];
    if (!isTable(table)) continue;
    for (const path of Object.keys(table)) safeRelative(path, `${key} of the report`);
  }
  const { session } = value;
  if (isTable(session) && typeof session["name"] === "string") {
    safeRelative(session["name"], "the session of the report");
  }
}
