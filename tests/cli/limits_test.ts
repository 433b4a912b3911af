/** @module What `sublet limits set` takes. */

import assert from "node:assert/strict";
import { limitSource, parseSetting } from "../../lib/cli/limits_command.ts";

Deno.test("limits set takes numbers and null", () => {
  assert.deepEqual(parseSetting("executor.pools.lab.agents=null"), {
    key: "executor.pools.lab.agents",
    value: null,
  });
  assert.equal(parseSetting("a = 2.5").value, 2.5);
  assert.equal(parseSetting("a = 2.5").key, "a");
});

Deno.test("limits set refuses what is no setting", () => {
  for (const text of ["a", "a=", "=1", "a=many", "a=Infinity", "a= "]) {
    assert.throws(() => parseSetting(text), { code: "usage" }, text);
  }
});

Deno.test("a limit says who set it and why", () => {
  const at = new Date().toISOString();
  const view = { key: "a", value: 1, source: "limit", limit: { reason: "why", actor: "ann", at } };
  assert.match(
    limitSource(view as Parameters<typeof limitSource>[0]),
    /^limit by ann, \ds ago: why$/,
  );
});
