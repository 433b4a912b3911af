/** @module A metric of two sides, compared: means, paired differences, and the worst gain that the data allow. */

import { lowerBound } from "./campaign_bootstrap.ts";
import type { MetricConfig } from "./campaign_config.ts";
import type { Sample } from "./shapes.ts";

/** How the worst gain of a metric was found: over units, over pairs of runs, or not at all (it is the gain). */
export type Method = "units" | "pairs" | "aggregate";

/** One metric of a candidate beside the bar's. */
export interface ComparedMetric {
  readonly role: MetricConfig["role"];
  readonly direction: MetricConfig["direction"];
  /** Mean over the successful runs of each side; null: none printed it. */
  readonly mean: number | null;
  readonly bar_mean: number | null;
  /** Candidate minus bar, for each pair of successful runs. */
  readonly differences: readonly number[];
  /** How much better the candidate is, in the metric's own units; negative: worse. Null: a side has no value. */
  readonly gain: number | null;
  /** The lower bound of the gain; null for a `watch` metric, and when a side has no value. */
  readonly worst: number | null;
  readonly method: Method | null;
  /** Why the method is `aggregate`. */
  readonly why: string | null;
}

/** The successful runs of one side, with what they say together. */
export interface Side {
  readonly samples: readonly Sample[];
  readonly means: Readonly<Record<string, number>>;
}

/** One side of a comparison, of its runs. */
export function sideOf(samples: readonly Sample[]): Side {
  return { samples, means: meansOf(samples) };
}

/** Mean of each metric over the successful ones of `samples` that printed it. */
export function meansOf(samples: readonly Sample[]): Record<string, number> {
  const values = new Map<string, number[]>();
  for (const sample of samples) {
    if (sample.error !== null) continue;
    for (const [name, value] of Object.entries(sample.metrics)) {
      const seen = values.get(name);
      if (seen === undefined) values.set(name, [value]);
      else seen.push(value);
    }
  }
  return Object.fromEntries([...values].map(([name, all]) => [name, mean(all)]));
}

/** Compare `metric` of `candidate` with the bar's. */
export async function compareMetric(
  metric: MetricConfig,
  candidate: Side,
  bar: Side,
  confidence: number,
  pause?: () => Promise<void>,
): Promise<ComparedMetric> {
  const own = candidate.means[metric.name] ?? null;
  const other = bar.means[metric.name] ?? null;
  const differences = pairDifferences(metric.name, candidate, bar);
  const { role, direction } = metric;
  const base = { role, direction, mean: own, bar_mean: other, differences };
  if (own === null || other === null) {
    return { ...base, gain: null, worst: null, method: null, why: null };
  }
  const sign = direction === "higher" ? 1 : -1;
  // A difference may be too large for a number, and JSON has no infinity.
  const most = Number.MAX_VALUE;
  const gain = Math.min(Math.max(sign * (own - other), -most), most) || 0;
  if (role === "watch") return { ...base, gain, worst: null, method: null, why: null };
  const mine = unitMeans(metric.name, candidate);
  const theirs = unitMeans(metric.name, bar);
  if (mine !== null && theirs !== null && sameKeys(mine, theirs)) {
    const units = [...mine].map(([unit, value]) => sign * (value - (theirs.get(unit) ?? 0)));
    const worst = await lowerBound(units, confidence, pause);
    return { ...base, gain, worst, method: "units", why: null };
  }
  const runs = successes(candidate).length;
  const paired = differences.length > 0 && differences.length === runs &&
    runs === successes(bar).length;
  if (paired && (mine === null || theirs === null)) {
    const gains = differences.map((difference) => sign * difference);
    const worst = await lowerBound(gains, confidence, pause) / gains.length;
    return { ...base, gain, worst, method: "pairs", why: null };
  }
  return { ...base, gain, worst: gain, method: "aggregate", why: lack(mine, theirs) };
}

function lack(mine: Map<string, number> | null, theirs: Map<string, number> | null): string {
  if (mine !== null && theirs !== null) return "the two sides have other units";
  if (mine === null && theirs === null) return "there are no results by unit and no pairs";
  return `the ${mine === null ? "candidate" : "bar"} has no results by unit`;
}

function successes(side: Side): Sample[] {
  return side.samples.filter((sample) => sample.error === null);
}

/** The i-th run of the candidate ran next to the i-th of the bar; pairs with a failed run are left out. */
function pairDifferences(name: string, candidate: Side, bar: Side): number[] {
  const differences: number[] = [];
  for (const [index, sample] of candidate.samples.entries()) {
    const beside = bar.samples[index];
    if (beside === undefined || sample.error !== null || beside.error !== null) continue;
    const [own, other] = [sample.metrics[name], beside.metrics[name]];
    if (own !== undefined && other !== undefined) differences.push(own - other);
  }
  return differences;
}

/** Mean of each unit of `name` over a side's successful runs; null when they have none, or not the same ones. */
function unitMeans(name: string, side: Side): Map<string, number> | null {
  const runs = successes(side);
  const sums = new Map<string, number>();
  for (const [index, sample] of runs.entries()) {
    const units = Object.entries(sample.units[name] ?? {});
    if (units.length === 0 || (index > 0 && units.length !== sums.size)) return null;
    for (const [unit, value] of units) {
      const sum = sums.get(unit);
      if (index > 0 && sum === undefined) return null;
      sums.set(unit, (sum ?? 0) + value);
    }
  }
  if (sums.size === 0) return null;
  for (const [unit, sum] of sums) sums.set(unit, sum / runs.length);
  return sums;
}

function sameKeys(a: Map<string, number>, b: Map<string, number>): boolean {
  return a.size === b.size && [...a.keys()].every((key) => b.has(key));
}

function mean(values: readonly number[]): number {
  const plain = values.reduce((sum, value) => sum + value, 0) / values.length;
  // A sum may be too large for a number where the mean is not.
  return Number.isFinite(plain)
    ? plain
    : values.reduce((sum, value) => sum + value / values.length, 0);
}
