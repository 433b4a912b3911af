import assert from "node:assert/strict";
import fc from "fast-check";
import { isoTime } from "../../lib/lease/mod.ts";

Deno.test("isoTime is what Date prints, for any millisecond of the years 0 to 9999", () => {
  const first = Date.UTC(2000, 0, 1) - 2000 * 365.25 * 86_400_000;
  fc.assert(
    fc.property(fc.integer({ min: Math.ceil(first), max: 253_402_300_799_999 }), (ms) => {
      const date = new Date(ms);
      if (date.getUTCFullYear() < 0) return;
      assert.equal(isoTime(ms), date.toISOString());
    }),
    { numRuns: 3000 },
  );
  for (
    const text of [
      "1970-01-01T00:00:00.000Z",
      "2000-02-29T23:59:59.999Z",
      "2100-03-01T00:00:00.000Z",
    ]
  ) {
    assert.equal(isoTime(Date.parse(text)), text);
  }
});
