/** @module Tests of comparisons: the bootstrap's bound, what each metric is compared by, and the rules of a verdict. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { lowerBound, RESAMPLES } from "../../lib/job/campaign_bootstrap.ts";
import { checkCampaign } from "../../lib/job/campaign_file.ts";
import { compare } from "../../lib/job/campaign_verdict.ts";
import type { Sample } from "../../lib/job/shapes.ts";

const METRIC = (name: string, rest: string) => `[[metrics]]\nname = "${name}"\n${rest}\n`;
const SCORE = METRIC("score", 'direction = "higher"\nrole = "primary"');
const COST = METRIC("cost", 'direction = "lower"\nrole = "guardrail"\nmargin = 1\nfloor = 100');

function config(...metrics: string[]) {
  const text = `name = "c"\nevaluate = ["x"]\n${metrics.join("")}`;
  const checked = checkCampaign(text, "f");
  assert.ok("config" in checked, "problems" in checked ? checked.problems.join("\n") : "");
  return checked.config;
}

const run = (
  metrics: Record<string, number>,
  units: Sample["units"] = {},
  error: string | null = null,
): Sample => ({ metrics, seconds: 1, error, units });

const scores = (...values: number[]) => values.map((score) => run({ score }));

Deno.test("the bound of up to five differences is that of all their resamples", async () => {
  assert.equal(await lowerBound([1, 2, 3], 0.95), 4);
  assert.equal(await lowerBound([7], 0.95), 7);
  // Of the 4 resamples of two, the lowest is in the first 5 %.
  assert.equal(await lowerBound([1, 3], 0.95), 2);
  assert.equal(await lowerBound([1, 3], 0.6), 4);
});

Deno.test("the bound of more differences is drawn by the documented generator", async () => {
  const differences = [...Array(10).fill(0.5), ...Array(5).fill(-0.1)];
  const bound = await lowerBound(differences, 0.95);
  assert.equal(Number(bound.toFixed(6)), 2.7);
  // The same, written from the description alone.
  const state = [123456789, 362436069, 521288629, 88675123].map(BigInt);
  const mask = 0xffffffffn;
  const sums: number[] = [];
  for (let resample = 0; resample < RESAMPLES; resample++) {
    let sum = 0;
    for (let draw = 0; draw < differences.length; draw++) {
      const [x = 0n, y = 0n, z = 0n, w = 0n] = state;
      const t = (x ^ (x << 11n)) & mask;
      const u = (w ^ (w >> 19n) ^ t ^ (t >> 8n)) & mask;
      state.splice(0, 4, y, z, w, u);
      sum += differences[Number(u * BigInt(differences.length) >> 32n)];
    }
    sums.push(sum);
  }
  sums.sort((a, b) => a - b);
  assert.equal(bound, sums[200]);
});

Deno.test("the bound lies between the extremes and does not grow with the confidence", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 8 }),
      async (differences) => {
        const n = differences.length;
        const low = await lowerBound(differences, 0.95);
        assert.ok(low >= n * Math.min(...differences) - 1e-3);
        assert.ok(low <= await lowerBound(differences, 0.5));
      },
    ),
    { numRuns: 40 },
  );
});

Deno.test("a long bootstrap pauses, so that others run meanwhile", async () => {
  let pauses = 0;
  const pause = () => Promise.resolve(void pauses++);
  await lowerBound(Array.from({ length: 1000 }, (_, index) => index % 7), 0.95, pause);
  assert.equal(pauses, 8);
});

Deno.test("paired runs are compared by their differences", async () => {
  const { metrics, verdict, reason } = await compare(
    config(SCORE),
    scores(11, 12, 13),
    scores(10, 10, 10),
  );
  assert.deepEqual(metrics["score"], {
    role: "primary",
    direction: "higher",
    mean: 12,
    bar_mean: 10,
    differences: [1, 2, 3],
    gain: 2,
    worst: 4 / 3,
    method: "pairs",
    why: null,
  });
  assert.equal(verdict, "keep");
  assert.equal(reason, "score goes from 10 to 12: a gain of 2, at worst 1.333 (over 3 pairs)");
});

Deno.test("results by unit are compared by unit, over the sum", async () => {
  const own = { score: { a: 2, b: 3, c: 4 } };
  const bar = { score: { a: 1, b: 1, c: 1 } };
  const { metrics } = await compare(config(SCORE), [run({ score: 9 }, own)], [
    run({ score: 3 }, bar),
  ]);
  const score = metrics["score"];
  assert.deepEqual([score?.method, score?.gain, score?.worst], ["units", 6, 4]);
});

Deno.test("other units on the two sides leave the totals alone to compare", async () => {
  const own = [run({ score: 3 }, { score: { a: 3 } })];
  const bar = [run({ score: 1 }, { score: { b: 1 } })];
  const { metrics, reason } = await compare(config(SCORE), own, bar);
  assert.deepEqual([metrics["score"]?.method, metrics["score"]?.worst], ["aggregate", 2]);
  assert.match(reason, /untested: the two sides have other units/);
});

Deno.test("where the lower number is better, a smaller one is the gain", async () => {
  const lower = METRIC("score", 'direction = "lower"\nrole = "primary"');
  const { metrics, verdict } = await compare(config(lower), scores(8, 8), scores(10, 10));
  const score = metrics["score"];
  assert.deepEqual([score?.gain, score?.differences, verdict], [2, [-2, -2], "keep"]);
});

Deno.test("a watched metric is compared and decides nothing", async () => {
  const watch = METRIC("seen", 'direction = "higher"');
  const own = [run({ score: 2, seen: 1 }), run({ score: 2, seen: 1 })];
  const bar = [run({ score: 1, seen: 9 }), run({ score: 1, seen: 9 })];
  const { metrics, verdict } = await compare(config(SCORE, watch), own, bar);
  assert.deepEqual([metrics["seen"]?.gain, metrics["seen"]?.worst, verdict], [-8, null, "keep"]);
});

const pair = (score: number, cost?: number) => {
  const metrics: Record<string, number> = cost === undefined ? { score } : { score, cost };
  return [run(metrics), run(metrics)];
};

const RULES: [string, Sample[], Sample[], string, RegExp][] = [
  [
    "no primary value is a crash",
    [run({ cost: 1 })],
    pair(1, 1),
    "crash",
    /score was not measured/,
  ],
  [
    "a failed run is a crash",
    [run({ score: 5 }), run({}, {}, "exit 1")],
    pair(1),
    "crash",
    /exit 1/,
  ],
  [
    "a guardrail past its floor is a discard",
    pair(9, 101),
    pair(1, 1),
    "discard",
    /cost is 101, past its floor of 100/,
  ],
  ["past its floor also without a bar's score", pair(9, 101), [run({})], "discard", /floor/],
  [
    "a bar without a score is a keep",
    pair(9, 1),
    [run({}, {}, "exit 1")],
    "keep",
    /the bar has no score/,
  ],
  ["no gain is a discard", pair(1, 1), pair(1, 1), "discard", /no gain/],
  ["a loss is a discard", pair(0, 1), pair(1, 1), "discard", /score goes from 1 to 0/],
  [
    "a gain that the data do not prove is interesting",
    [run({ score: 9, cost: 1 }), run({ score: 0.5, cost: 1 })],
    pair(1, 1),
    "interesting",
    /at worst -0.5/,
  ],
  [
    "a guardrail that may lose over its margin is interesting",
    pair(9, 4),
    pair(1, 1),
    "interesting",
    /cost may lose 3, over its margin of 1/,
  ],
  [
    "an unmeasured guardrail is interesting",
    pair(9),
    pair(1, 1),
    "interesting",
    /cost was not measured/,
  ],
  ["a proven gain within the margins is a keep", pair(9, 1.5), pair(1, 1), "keep", /a gain of 8/],
];

for (const [rule, own, bar, expected, why] of RULES) {
  Deno.test(`verdict: ${rule}`, async () => {
    const { verdict, reason } = await compare(config(SCORE, COST), own, bar);
    assert.equal(verdict, expected, reason);
    assert.match(reason, why);
  });
}

Deno.test("of several tracks the best verdict counts, guarded by the other primaries", async () => {
  const tracks = config(
    METRIC("score", 'direction = "higher"\nrole = "primary"\nmargin = 0.5'),
    METRIC("cost", 'direction = "lower"\nrole = "primary"\nmargin = 1'),
    "[tracks.score]\nshare = 0.5\n[tracks.cost]\nshare = 0.5\n",
  );
  const cheaper = await compare(tracks, pair(1, 2), pair(1, 5));
  assert.deepEqual([cheaper.verdict, cheaper.track], ["keep", "cost"]);
  assert.match(cheaper.reason, /^track cost: /);
  const worse = await compare(tracks, pair(0, 2), pair(1, 5));
  assert.deepEqual([worse.verdict, worse.track], ["interesting", "cost"]);
});

Deno.test("without a primary metric there is no verdict, and every metric is compared", async () => {
  const watch = METRIC("score", 'direction = "higher"');
  const { verdict, metrics, reason } = await compare(config(watch), scores(2), scores(1));
  assert.deepEqual([verdict, metrics["score"]?.gain], [null, 1]);
  assert.match(reason, /no metric of the campaign has the role primary/);
});
