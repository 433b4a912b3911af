/** @module Parts of requests and answers that several routes share. */

import * as z from "zod";
import { name } from "./route.ts";

/** The most items of a list's page. */
export const MAX_LIMIT = 1000;

/** A number in a path or a query: an id. */
export const idText = z.string().regex(/^[1-9]\d{0,14}$/, "must be a whole number above 0")
  .transform(Number);

/** `{id}` in a path. */
export const idParams = z.object({ id: idText.describe("The number that the list shows.") });

/** The page of a list. */
export const page = {
  limit: z.string().regex(/^\d{1,6}$/, "must be a whole number").transform(Number)
    .pipe(z.number().min(1, "must be at least 1").max(MAX_LIMIT, `must be at most ${MAX_LIMIT}`))
    .optional().describe(`How many items: 1 to ${MAX_LIMIT}. Default 100.`),
  after: idText.optional().describe("Go on after this item: the `next` of the page before."),
};

/** Items of a page when its request does not say. */
export const DEFAULT_LIMIT = 100;

/** Where the next page starts. */
export const next = z.int().nullable().describe(
  "`after` of the next page. Null: this is the last one.",
);

/** ISO 8601 UTC. */
export const time = z.string().describe("ISO 8601 UTC.");

/** The `next` of a page of at most `limit` items. */
export function nextOf<T>(items: readonly T[], limit: number, id: (item: T) => number) {
  const last = items.at(-1);
  return items.length < limit || last === undefined ? null : id(last);
}

/** How an evaluation can stand. */
export const evaluationState = z.enum(["waiting", "running", "measured", "failed", "cancelled"]);

const sample = name(
  "Sample",
  z.object({
    metrics: z.record(z.string(), z.number()),
    seconds: z.number(),
    error: z.string().nullable(),
  }).describe("One run of the evaluate command."),
);

const comparedMetric = name(
  "ComparedMetric",
  z.object({
    role: z.enum(["primary", "guardrail", "watch"]),
    direction: z.enum(["higher", "lower"]),
    mean: z.number().nullable().describe("Of the candidate's successful runs."),
    bar_mean: z.number().nullable().describe("Of the bar's successful runs."),
    differences: z.array(z.number()).readonly()
      .describe("Candidate minus bar, for each pair of runs."),
    gain: z.number().nullable().describe(
      "How much better the candidate is, in the metric's units.",
    ),
    worst: z.number().nullable().describe("The lower bound of the gain."),
    method: z.enum(["units", "pairs", "aggregate"]).nullable()
      .describe("What the bound is over; `aggregate`: it is the gain itself, untested."),
    why: z.string().nullable().describe("Why the method is `aggregate`."),
  }),
);

const comparison = name(
  "Comparison",
  z.object({
    verdict: z.enum(["keep", "interesting", "discard", "crash"]).nullable(),
    reason: z.string(),
    track: z.string().nullable(),
    confidence: z.number().describe("One-sided, of every `worst`."),
    metrics: z.record(z.string(), comparedMetric),
    against: z.string().describe("The bar's revision."),
    evaluator_changed: z.boolean()
      .describe("Another command, script or data measured the bar: the verdict is no keep then."),
  }),
);

/** An evaluation. */
export const evaluation = name(
  "Evaluation",
  z.object({
    job: z.int().nullable(),
    evaluation: z.int(),
    campaign: z.string().describe("The campaign's name."),
    revision: z.string(),
    subject: z.string(),
    state: evaluationState,
    metrics: z.record(z.string(), z.number()).describe("Means over the successful runs."),
    worker: z.string().nullable(),
    lease: z.int().nullable(),
    attempts: z.int().describe("How many leases it had."),
    seconds: z.number().nullable().describe("That the command ran, over all runs of both sides."),
    error: z.string().nullable(),
    files: z.record(z.string(), z.string()).describe("Log files: path to address in the CAS."),
    samples: z.array(sample).readonly(),
    bar_samples: z.array(sample).readonly().describe("The i-th ran next to the i-th sample."),
    comparison: comparison.nullable(),
    repeats: z.int().describe("Runs of the command for each side."),
    against: z.string().nullable().describe("The bar's revision."),
    evaluator: z.string()
      .describe("What measures, as a hash: scores of two evaluators are not comparable."),
    requested_at: time,
    started_at: time.nullable(),
    ended_at: time.nullable(),
  }),
);
