/**
 * @module The keys of a campaign's file, as they are checked and stored.
 *
 * They follow piloop 0.3.1's `piloop.toml`, so that such a file loads unchanged. Keys that only piloop's planner reads
 * are taken and kept, and have no meaning here: {@linkcode ACCEPTED_KEYS}, {@linkcode ACCEPTED_PLUGINS}.
 */

import * as z from "zod";
import { unsafeReason } from "../home/mod.ts";
import { gitTable } from "../vcs/mod.ts";
import { harnessTables, mcpTables, roleTables, tableName } from "./harness_config.ts";

/** Keys of a campaign's file that load, and that nothing reads yet. */
export const ACCEPTED_KEYS = [
  "runtime",
  "max_concurrent",
  "context",
  "spend",
  "memory",
  "status",
  "stop",
] as const;

/** Tables of `[plugins]` that load, and that nothing reads yet. */
export const ACCEPTED_PLUGINS = ["stop_rule", "memory", "archive", "section", "trigger", "role"];

/** Tables of `[plugins]` that belong into the home's `config.toml`. */
const HOME_PLUGINS = ["executor", "network", "cas", "secrets", "provisioner"];

const positive = z.number().positive("must be greater than 0");
const text = z.string().min(1, "must not be empty");
const checkoutPath = z.string().check((context) => {
  const reason = unsafeReason(context.value);
  if (reason !== null) {
    context.issues.push({
      code: "custom",
      message: `must be a relative path inside the repo, and ${reason}`,
      input: context.value,
    });
  }
});

/** `[[metrics]]`: a number that the evaluate command prints, and what it decides. */
export const metricConfig = z.strictObject({
  name: z.string().regex(/^[^\s=]([^=\r\n]*[^\s=])?$/, "must be a printable name without '='"),
  direction: z.enum(["higher", "lower"]),
  role: z.enum(["primary", "guardrail", "watch"]).default("watch"),
  track: text.optional(),
  /** The largest loss against the bar, in the metric's own units. */
  margin: z.number().min(0, "must be at least 0").optional(),
  /** A hard limit: the worst value that a candidate may have. */
  floor: z.number().optional(),
  /** Runs of the command for each evaluation that this metric judges. */
  repeats: z.int().min(1, "must be at least 1").optional(),
}).superRefine((metric, context) => {
  const wrong = (key: string, message: string) =>
    context.addIssue({ code: "custom", path: [key], message });
  if (metric.role === "guardrail" && metric.margin === undefined) {
    wrong("margin", "is required on a guardrail");
  }
  if (metric.role !== "primary" && metric.track !== undefined) {
    wrong("track", "applies to a primary only");
  }
  if (metric.role !== "watch") return;
  for (const key of ["margin", "floor", "repeats"] as const) {
    if (metric[key] !== undefined) wrong(key, "applies to a guardrail or a primary only");
  }
});

/** One metric of a campaign. */
export type MetricConfig = z.output<typeof metricConfig>;

const trackConfig = z.strictObject({
  share: z.number().min(0, "must be at least 0").max(1, "must be at most 1").default(1),
  addendum: checkoutPath.optional(),
});

const verdictRule = z.strictObject({
  provider: z.literal("bootstrap", "must be 'bootstrap', the only one").default("bootstrap"),
  /** One-sided confidence of the bound that a verdict tests. */
  confidence: z.number()
    .min(0.5, "must be at least 0.5").lt(1, "must be below 1").default(0.95),
});

const vcsTable = z.strictObject(gitTable.shape);

const accepted = <K extends string>(keys: readonly K[]) =>
  Object.fromEntries(keys.map((key) => [key, z.unknown().optional()])) as Record<
    K,
    z.ZodOptional<z.ZodUnknown>
  >;

const homeOnly = Object.fromEntries(
  HOME_PLUGINS.map((key) => [
    key,
    z.never("belongs into the home's config.toml, not into a campaign's file").optional(),
  ]),
);

const plugins = z.strictObject({
  verdict_rule: verdictRule.default({ provider: "bootstrap", confidence: 0.95 }),
  vcs: vcsTable.prefault({}),
  ...accepted(ACCEPTED_PLUGINS),
  ...homeOnly,
});

/** A campaign's file, checked, with its defaults. */
export const campaignConfig = z.strictObject({
  /** Names the campaign; one server has it once. */
  name: z.string()
    .regex(
      /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
      "must be 1 to 64 letters, digits, '.', '_' or '-', the first a letter or a digit",
    )
    .regex(/[^0-9]/, "must hold something other than digits, which would name an id"),
  /** The evaluate command's argv. No shell reads it. */
  evaluate: z.array(text).min(1, "must name the command that measures a commit, as a list")
    .max(1000),
  /** Seconds for each run of the command. */
  evaluate_timeout: positive.max(30 * 86_400, "must be at most 30 days").default(600),
  /** Paths of the checkout that git ignores, which every job gets read-only. */
  link: z.array(checkoutPath).max(100).default([]),
  metrics: z.array(metricConfig).min(1, "must name every metric that the command prints").max(1000),
  tracks: z.record(text, trackConfig).default({}),
  /** The harnesses of its agents, the first unless a request or a role says otherwise. */
  harnesses: z.array(tableName).min(1, "must name at least one harness").max(100).default([
    "claude",
  ]),
  /** The model for each harness. */
  model: z.record(tableName, text).default({}),
  harness: harnessTables.default({}),
  mcp: mcpTables.default({}),
  roles: roleTables.default({}),
  plugins: plugins.prefault({}),
  /** The former place of `plugins.verdict_rule.confidence`. */
  confidence: z.number().min(0.5, "must be at least 0.5").lt(1, "must be below 1").optional(),
  ...accepted(ACCEPTED_KEYS),
}).superRefine((config, context) => {
  for (const problem of crossRules(config.metrics, config.tracks)) {
    context.addIssue({ code: "custom", path: problem.path, message: problem.message });
  }
});

/** A campaign's settings. */
export type CampaignConfig = z.output<typeof campaignConfig>;

/** The track that a primary decides: its `track`, or else its own name. */
export function trackOf(metric: MetricConfig): string {
  return metric.track ?? metric.name;
}

/** How often a campaign's metrics ask to run the command in one evaluation: the largest `repeats`, or 1. */
export function repeatsOf(config: CampaignConfig): number {
  return Math.max(1, ...config.metrics.map((metric) => metric.repeats ?? 1));
}

/** The confidence of a campaign's verdicts. */
export function confidenceOf(config: CampaignConfig): number {
  return config.confidence ?? config.plugins.verdict_rule.confidence;
}

interface Problem {
  readonly path: (string | number)[];
  readonly message: string;
}

function* crossRules(
  metrics: readonly MetricConfig[],
  tracks: Readonly<Record<string, { share: number }>>,
): Generator<Problem> {
  const names = new Set<string>();
  for (const [index, metric] of metrics.entries()) {
    if (names.has(metric.name)) {
      yield { path: ["metrics", index, "name"], message: "is the name of an earlier metric" };
    }
    names.add(metric.name);
  }
  const primaries = [...metrics.entries()].filter(([, metric]) => metric.role === "primary");
  if (primaries.length > 1) yield* trackRules(primaries, tracks);
  const declared = primaries.map(([, metric]) => trackOf(metric));
  for (const name of Object.keys(tracks)) {
    if (!declared.includes(name)) {
      yield { path: ["tracks", name], message: "is the track of no primary metric" };
    }
  }
}

function* trackRules(
  primaries: readonly [number, MetricConfig][],
  tracks: Readonly<Record<string, { share: number }>>,
): Generator<Problem> {
  const seen = new Set<string>();
  let shares = 0;
  for (const [index, metric] of primaries) {
    const track = trackOf(metric);
    if (seen.has(track)) {
      const message = "is the track of an earlier primary: give each primary its own";
      yield { path: ["metrics", index, "track"], message };
    }
    seen.add(track);
    if (metric.margin === undefined) {
      const message = "is required on each primary of a campaign with several tracks";
      yield { path: ["metrics", index, "margin"], message };
    }
    if (tracks[track] === undefined) {
      yield { path: ["tracks", track], message: "is missing: it holds the track's share" };
    }
    shares += tracks[track]?.share ?? 1;
  }
  if (Math.abs(shares - 1) > 1e-9) {
    yield { path: ["tracks"], message: `must have shares that sum to 1, not ${shares}` };
  }
}
