/** @module Reports and means at the edges of what JSON holds. */

import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { compareMetric, meansOf, sideOf } from "../../lib/job/campaign_compare.ts";
import { parseEvaluationReport } from "../../lib/job/evaluation_report.ts";

function sample(value: number) {
  return { metrics: { a: value }, seconds: 1, error: null, units: {} };
}

Deno.test("a report that names a thing __proto__ is refused, and keeps nothing of it back", () => {
  for (
    const text of [
      '{"kind":"evaluation","samples":[{"metrics":{"__proto__":1},"seconds":1}]}',
      '{"kind":"evaluation","samples":[{"metrics":{},"seconds":1,"units":{"__proto__":{"u":1}}}]}',
      '{"kind":"evaluation","samples":[{"metrics":{},"seconds":1}],"files":{"__proto__":"x"}}',
    ]
  ) {
    assert.throws(() => parseEvaluationReport(JSON.parse(text)), (error) => {
      return isError(error, "invalid_body") && /__proto__/.test(error.message);
    }, text);
  }
});

Deno.test("the mean of huge values is finite, and the gain between them as well", async () => {
  const { MAX_VALUE } = Number;
  const mean = meansOf([sample(MAX_VALUE), sample(MAX_VALUE)])["a"] ?? 0;
  assert.ok(Math.abs(mean / MAX_VALUE - 1) < 1e-9);
  assert.equal(meansOf([sample(1), sample(2)])["a"], 1.5);
  const metric = { name: "a", role: "watch", direction: "higher" } as never;
  const low = sideOf([sample(-MAX_VALUE)]);
  const { gain } = await compareMetric(metric, sideOf([sample(MAX_VALUE)]), low, 0.95);
  assert.equal(gain, MAX_VALUE);
});
