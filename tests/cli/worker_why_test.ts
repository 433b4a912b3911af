/** @module What `worker list` says of a worker that gets no job. */

import assert from "node:assert/strict";
import { whyNone } from "../../lib/cli/worker_command.ts";

Deno.test("a drained or paused worker shows who wanted what, and others only their own reason", () => {
  const at = "2026-01-01T00:00:00.000Z";
  const why = (no_lease: string | null, standing_reason: string | null, drain_by: string | null) =>
    whyNone({ no_lease, standing_reason, drain_by });
  assert.equal(why("draining", "a new disk", at), `draining by ${at}: a new disk`);
  assert.equal(why("draining", null, null), "draining");
  assert.equal(why("drained", "a new disk", at), "drained: a new disk");
  assert.equal(why("paused", "too hot", at), "paused: too hot");
  assert.equal(why("load", "too hot", null), "load");
  assert.equal(why(null, null, null), "");
});
