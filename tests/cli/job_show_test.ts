/** @module What `job show` says of an event. */

import assert from "node:assert/strict";
import { fieldsText } from "../../lib/cli/job_show.ts";

Deno.test("what an event says is words, and nothing where it says nothing", () => {
  assert.equal(fieldsText({}), "");
  assert.equal(
    fieldsText({ attempt: 1, reason: "its worker w was silent for 300 seconds" }),
    "attempt 1, reason: its worker w was silent for 300 seconds",
  );
  assert.equal(fieldsText({ leases: [1, 2], by: null }), "leases [1,2], by null");
});
