/** @module Tests of units files. */

import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { parseUnits, readUnits } from "../../lib/job/run_units.ts";
import { TempDir } from "../kit/mod.ts";

const printed = new Map([["m", 6], ["tiny", 1e-12], ["none", 0]]);

Deno.test("units whose sum is what was printed are taken", () => {
  assert.deepEqual(parseUnits('{"m": {"x": 1, "y": 2, "z": 3}}', printed), {
    m: { x: 1, y: 2, z: 3 },
  });
  assert.deepEqual(parseUnits("{}", printed), {});
  assert.deepEqual(parseUnits('{"tiny": {"x": 0}, "none": {"a": -1, "b": 1}}', printed), {
    tiny: { x: 0 },
    none: { a: -1, b: 1 },
  });
});

Deno.test("a sum may be 0.1 % off, and no more", () => {
  assert.deepEqual(parseUnits('{"m": {"x": 6.005}}', printed), { m: { x: 6.005 } });
  assert.throws(
    () => parseUnits('{"m": {"x": 6.007}}', printed),
    /add up to 6.007, and 6 was printed/,
  );
});

const wrong: [string, string, RegExp][] = [
  ["text that is no JSON", "{", /not JSON/],
  ["NaN, which is no JSON", '{"m": {"x": NaN}}', /not JSON/],
  ["a list", "[]", /no JSON object of metrics/],
  ["null", "null", /no JSON object of metrics/],
  ["a metric that was not printed", '{"other": {"x": 1}}', /"other", which was not printed/],
  ["a metric that is a number", '{"m": 6}', /"m" is no JSON object of units/],
  ["a metric that is a list", '{"m": [6]}', /"m" is no JSON object of units/],
  ["a metric without units", '{"none": {}}', /"none" has no units/],
  ["a number as text", '{"m": {"x": "6"}}', /"x" of "m" is not a finite number/],
  ["a truth value", '{"m": {"x": true}}', /"x" of "m" is not a finite number/],
  ["an infinite number", '{"m": {"x": 1e999}}', /"x" of "m" is not a finite number/],
];
for (const [what, text, reason] of wrong) {
  Deno.test(`a units file with ${what} is refused`, () => {
    assert.throws(
      () => parseUnits(text, printed),
      (error) => isError(error, "invalid_body") && reason.test(error.message),
    );
  });
}

Deno.test("no file means no units; one that is a link, a directory, no UTF-8 or too large is refused", async () => {
  await using dir = await TempDir.make();
  assert.deepEqual(await readUnits(dir.path, "absent.json", printed), {});
  const refused = (name: string, reason: RegExp) =>
    assert.rejects(
      readUnits(dir.path, name, printed),
      (error) => isError(error, "invalid_body") && reason.test(error.message),
    );
  await Deno.writeTextFile(dir.join("real"), "{}");
  await Deno.symlink(dir.join("real"), dir.join("link"));
  await refused("link", /link/);
  await Deno.mkdir(dir.join("directory"));
  await refused("directory", /directory/);
  await Deno.writeFile(dir.join("binary"), Uint8Array.of(0xff, 0xfe));
  await refused("binary", /not UTF-8/);
  await Deno.writeTextFile(dir.join("large"), " ");
  await Deno.truncate(dir.join("large"), 9 * 1024 * 1024);
  await refused("large", /more than 8388608 bytes/);
});
