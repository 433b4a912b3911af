/** @module What the demo prints of its results. */

import type { Finished } from "./demo.ts";

function number(value: number | undefined): string {
  return value === undefined ? "-" : String(Number(value.toPrecision(4)));
}

/** Lines of a table: one commit a line, and where it ran. */
export function table(results: readonly Finished[]): string[] {
  const header = [
    "commit",
    "subject",
    "errors",
    "accuracy",
    "log loss",
    "worker",
    "lease",
    "attempts",
    "seconds",
  ];
  const rows = results.map(({ evaluation }) => [
    evaluation.revision.slice(0, 10),
    evaluation.subject,
    number(evaluation.metrics["errors"]),
    number(evaluation.metrics["accuracy"]),
    number(evaluation.metrics["log_loss"]),
    evaluation.worker ?? "-",
    String(evaluation.lease ?? "-"),
    String(evaluation.attempts),
    number(evaluation.seconds ?? undefined),
  ]);
  const all = [header, ...rows];
  const widths = header.map((_, i) => Math.max(...all.map((row) => row[i]?.length ?? 0)));
  return [
    "",
    ...all.map((row) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd()),
  ];
}

/** Lines that say what became of the job whose worker was killed. */
export function story(killed: Finished, worker: string): string[] {
  const lines = [`\njob ${killed.evaluation.job}, whose worker ${worker} was killed:`];
  for (const lease of killed.leases) {
    lines.push(
      `  lease ${lease.lease}: ${lease.state} on ${lease.worker ?? "no worker"}${
        lease.reason ? ` (${lease.reason})` : ""
      }`,
    );
  }
  const accepted = killed.leases.filter((lease) => lease.state === "reported");
  lines.push(
    `  counted ${accepted.length === 1 ? "once" : `${accepted.length} times`}, under lease ${
      accepted[0]?.lease ?? "-"
    }`,
  );
  return lines;
}
