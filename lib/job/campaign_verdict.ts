/** @module The verdict on a candidate beside the bar: does it become the new bar, and why. */

import { type ComparedMetric, compareMetric, type Side, sideOf } from "./campaign_compare.ts";
import {
  type CampaignConfig,
  confidenceOf,
  type MetricConfig,
  trackOf,
} from "./campaign_config.ts";
import type { Sample } from "./shapes.ts";

/** From best to worst: a new bar, worth another look, no gain, no result. */
export const VERDICTS = ["keep", "interesting", "discard", "crash"] as const;
/** What a comparison comes to. */
export type Verdict = (typeof VERDICTS)[number];

/** A verdict, with its reason in a sentence that holds the numbers. */
export interface Judgement {
  readonly verdict: Verdict;
  readonly reason: string;
}

/** A candidate beside the bar. */
export interface Comparison {
  /** Null: no metric of the campaign is primary, so nothing decides. */
  readonly verdict: Verdict | null;
  readonly reason: string;
  /** The track that the verdict is of. */
  readonly track: string | null;
  /** One-sided confidence of every `worst`. */
  readonly confidence: number;
  readonly metrics: Readonly<Record<string, ComparedMetric>>;
}

/**
 * Compare a candidate's runs with those of the bar that ran next to them. Of several tracks, the verdict is that of the
 * best one: a candidate needs to advance only one, and the primaries of the others guard it.
 */
export async function compare(
  config: CampaignConfig,
  samples: readonly Sample[],
  barSamples: readonly Sample[],
  pause?: () => Promise<void>,
): Promise<Comparison> {
  const confidence = confidenceOf(config);
  const [candidate, bar] = [sideOf(samples), sideOf(barSamples)];
  const metrics: Record<string, ComparedMetric> = {};
  for (const metric of config.metrics) {
    metrics[metric.name] = await compareMetric(metric, candidate, bar, confidence, pause);
  }
  const primaries = config.metrics.filter((metric) => metric.role === "primary");
  let best: (Judgement & { track: string }) | null = null;
  for (const primary of primaries) {
    const judged = judgeTrack(primary, config.metrics, metrics, candidate);
    if (best !== null && VERDICTS.indexOf(judged.verdict) >= VERDICTS.indexOf(best.verdict)) {
      continue;
    }
    best = { ...judged, track: trackOf(primary) };
  }
  if (best === null) {
    const reason = "no metric of the campaign has the role primary, so there is no verdict";
    return { verdict: null, reason, track: null, confidence, metrics };
  }
  const reason = primaries.length > 1 ? `track ${best.track}: ${best.reason}` : best.reason;
  return { verdict: best.verdict, reason, track: best.track, confidence, metrics };
}

function judgeTrack(
  primary: MetricConfig,
  all: readonly MetricConfig[],
  compared: Readonly<Record<string, ComparedMetric>>,
  candidate: Side,
): Judgement {
  const failed = candidate.samples.find((sample) => sample.error !== null);
  if (failed !== undefined) return { verdict: "crash", reason: `a run failed: ${failed.error}` };
  const guards = all.filter((metric) =>
    metric.role === "guardrail" || (metric.role === "primary" && metric !== primary)
  );
  return judge(primary, guards, (metric) => compared[metric.name]);
}

/** The rules of a verdict, in their order, on metrics that were compared. */
export function judge(
  primary: MetricConfig,
  guards: readonly MetricConfig[],
  comparedOf: (metric: MetricConfig) => ComparedMetric | undefined,
): Judgement {
  const main = comparedOf(primary);
  if (main === undefined || main.mean === null) {
    return { verdict: "crash", reason: `${primary.name} was not measured` };
  }
  for (const guard of guards) {
    const value = comparedOf(guard)?.mean ?? null;
    if (value === null || guard.floor === undefined || !past(guard, value, guard.floor)) continue;
    const reason = `${guard.name} is ${figure(value)}, past its floor of ${figure(guard.floor)}`;
    return { verdict: "discard", reason };
  }
  if (main.bar_mean === null || main.gain === null || main.worst === null) {
    const reason = `${primary.name} is ${figure(main.mean)}, and the bar has no score`;
    return { verdict: "keep", reason };
  }
  const change = `${primary.name} goes from ${figure(main.bar_mean)} to ${figure(main.mean)}`;
  if (main.gain <= 0) return { verdict: "discard", reason: `${change}: no gain` };
  const bound = `${change}: a gain of ${figure(main.gain)}, at worst ${figure(main.worst)}${
    by(main)
  }`;
  if (main.worst <= 0) return { verdict: "interesting", reason: bound };
  for (const guard of guards) {
    const doubt = doubtOf(guard, comparedOf(guard));
    if (doubt !== null) return { verdict: "interesting", reason: `${bound}; but ${doubt}` };
  }
  return { verdict: "keep", reason: bound };
}

function doubtOf(guard: MetricConfig, compared: ComparedMetric | undefined): string | null {
  const worst = compared?.worst ?? null;
  if (compared === undefined || worst === null) return `${guard.name} was not measured`;
  const margin = guard.margin ?? 0;
  if (worst >= -margin) return null;
  return `${guard.name} may lose ${figure(-worst)}, over its margin of ${figure(margin)}${
    by(compared)
  }`;
}

function past(guard: MetricConfig, value: number, floor: number): boolean {
  return guard.direction === "higher" ? value < floor : value > floor;
}

function by(compared: ComparedMetric): string {
  if (compared.method === "units") return " (over units)";
  if (compared.method === "pairs") return ` (over ${compared.differences.length} pairs)`;
  return ` (untested: ${compared.why})`;
}

/** A number in a reason: whole ones in full, others to 4 significant digits. */
function figure(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}
