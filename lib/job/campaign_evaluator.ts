/** @module What measures a candidate, as a hash: scores of two evaluators are never compared unnoticed. */

import { createHash } from "node:crypto";
import type { Cid } from "../cas/mod.ts";
import { unsafeReason } from "../home/mod.ts";
import type { CampaignConfig } from "./campaign_config.ts";

/** What an evaluator is made of. */
export interface EvaluatorParts {
  readonly config: CampaignConfig;
  /** The version's ids of those files that the command names. */
  readonly files: ReadonlyMap<string, string>;
  /** The linked inputs by path. */
  readonly links: Readonly<Record<string, Cid>>;
}

/**
 * The evaluator's id: the first 16 hex digits of the SHA-256 of a JSON text that holds, in this order, the command, its
 * files, the links, and name and direction of each metric that judges, each list sorted. The command's own files and
 * what is linked belong to it: an edit of the script or of the data changes what a number means. Timeouts, margins,
 * floors and watched metrics do not.
 */
export function evaluatorId({ config, files, links }: EvaluatorParts): string {
  const judging = config.metrics.filter((metric) => metric.role !== "watch");
  const text = JSON.stringify({
    evaluate: config.evaluate,
    files: [...files].sort(byFirst),
    link: config.link.map((path): [string, Cid | null] => [path, links[path] ?? null]).sort(
      byFirst,
    ),
    metrics: judging.map(({ name, direction }): [string, string] => [name, direction]).sort(
      byFirst,
    ),
  });
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** The arguments of a command that can be paths in the checkout: its own script, say. */
export function commandPaths(command: readonly string[]): string[] {
  const paths = command.map((argument) => argument.replace(/^(\.\/)+/, ""));
  return [...new Set(paths.filter((path) => unsafeReason(path) === null && !path.startsWith("-")))];
}

function byFirst(a: readonly [string, unknown], b: readonly [string, unknown]): number {
  return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
}
