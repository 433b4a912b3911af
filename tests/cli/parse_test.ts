/** @module Option values are parsed strictly. */

import assert from "node:assert/strict";
import { duration, integer, seconds } from "../../lib/cli/parse.ts";

Deno.test("integer() takes whole numbers within its bounds", () => {
  assert.equal(integer(1, 10)("10"), 10);
  for (const bad of ["0", "11", "1.5", "", " 3", "1e1", "x"]) {
    assert.throws(() => integer(1, 10)(bad), /whole number/);
  }
});

Deno.test("seconds() takes finite numbers above 0", () => {
  assert.equal(seconds("2.5"), 2.5);
  for (const bad of ["0", "-1", "", "Infinity", "NaN", "1s"]) {
    assert.throws(() => seconds(bad), /seconds above 0/);
  }
});

Deno.test("duration() takes a number with a unit, in milliseconds", () => {
  assert.deepEqual(["90s", "30m", "12h", "30d", "1w"].map(duration), [
    90_000,
    1_800_000,
    43_200_000,
    2_592_000_000,
    604_800_000,
  ]);
  for (const bad of ["0d", "30", "d", "1.5h", "1y", ""]) {
    assert.throws(() => duration(bad), /duration such as/);
  }
});
