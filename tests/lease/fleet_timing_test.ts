/** @module The heartbeat period grows with the fleet, within what the protocol allows. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { fleetTiming } from "../../lib/lease/fleet_timing.ts";

const DEFAULT = { renew: 10, grace: 50, toleration: 300 };

Deno.test("a small fleet has the configured period, and a large one a longer one", () => {
  assert.deepEqual(fleetTiming(DEFAULT, 0), DEFAULT);
  assert.deepEqual(fleetTiming(DEFAULT, 5_000), DEFAULT);
  assert.equal(fleetTiming(DEFAULT, 7_500).renew, 15);
  assert.equal(fleetTiming(DEFAULT, 1_000_000).renew, 50 / 3);
});

Deno.test("renew < grace < toleration - 2 renew holds for every fleet", () => {
  const seconds = fc.double({ min: 0.01, max: 1e6, noNaN: true });
  fc.assert(fc.property(seconds, seconds, seconds, fc.nat(1e7), (renew, more, most, workers) => {
    const grace = renew + more;
    const timing = { renew, grace, toleration: grace + 2 * renew + most };
    const { renew: sent } = fleetTiming(timing, workers);
    assert.ok(sent >= renew);
    assert.ok(sent < grace && grace < timing.toleration - 2 * sent, `${sent}`);
  }));
});
