/** @module Tests that the short way to read and write an entry of a manifest differs from the long one in nothing. */

import assert from "node:assert/strict";
import fc from "fast-check";
import {
  cidOf,
  decodeManifest,
  digestOf,
  drislCid,
  encodeManifest,
  type Entry,
  openMemory,
  putEntries,
  readEntries,
} from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";

const raw = cidOf(new Uint8Array([1]));

const text = fc.oneof(
  fc.stringMatching(/^[a-z./~:\\ gitG0-9-]{1,12}$/),
  fc.string({ maxLength: 40, unit: "grapheme" }),
  fc.constantFrom("a", "a/b", ".git", "git~1/x", "a/.git", "a/..", "c:x", "é", "x".repeat(23)),
  fc.constantFrom("x".repeat(24), "x".repeat(255), "x".repeat(256), "a/".repeat(200) + "a"),
);
const number = (most: number) =>
  fc.oneof(
    fc.nat(most),
    fc.constantFrom(
      0,
      23,
      24,
      255,
      256,
      65_535,
      65_536,
      2 ** 32 - 1,
      2 ** 32,
      2 ** 53 - 1,
      -1,
      0.5,
    ),
  );
const times = fc.option(
  fc.oneof(
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.constantFrom(0n, -1n, 23n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n, 2n ** 63n - 1n, 2n ** 63n),
  ),
  { nil: null },
);
const entry: fc.Arbitrary<Entry> = fc.record({
  path: text,
  mode: number(0o10000),
  size: number(1 << 30),
  time: times,
  content: fc.oneof(
    text.map((link) => ({ link })),
    fc.constantFrom({ blob: raw }, { blob: drislCid(digestOf(raw)) }),
  ),
}).map(({ time, content, ...common }) => ({
  ...common,
  ...(time === null ? {} : { mtimeNs: time }),
  ...content,
}));

/** What `work` gives, or the code of its error. */
async function outcome<T>(work: () => Promise<T> | T): Promise<T | string> {
  try {
    return await work();
  } catch (error) {
    assert.ok(isError(error, "integrity", "unsafe_path"), String(error));
    return error.code;
  }
}

Deno.test("an entry has the same bytes, or the same error, written in either way", async () => {
  await fc.assert(
    fc.asyncProperty(entry, async (entry) => {
      const cas = openMemory();
      const short = await outcome(() => putEntries(cas, [entry]));
      const long = await outcome(() => drislCid(digestOf(cidOf(encodeManifest([entry])))));
      assert.equal(short, long);
    }),
    { numRuns: 2_000 },
  );
});

Deno.test("bytes are the same entry, or the same error, read in either way", async () => {
  const byte = fc.tuple(fc.nat(), fc.nat(255));
  await fc.assert(
    fc.asyncProperty(entry, fc.option(byte), fc.option(fc.nat()), async (entry, change, end) => {
      const whole = await outcome(() => encodeManifest([entry]));
      if (typeof whole === "string") return;
      const bytes = end === null ? whole : whole.slice(0, 10 + end % (whole.length - 9));
      // After the head of the list, which only the long way could read as something else.
      if (change !== null && bytes.length > 10) {
        bytes[10 + change[0] % (bytes.length - 10)] = change[1];
      }
      const cas = openMemory();
      const cid = drislCid(digestOf(await cas.put(bytes)));
      const short = await outcome(() => Array.fromAsync(readEntries(cas, cid)));
      const long = await outcome(() => [...decodeManifest(bytes).entries]);
      assert.deepEqual(short, long);
    }),
    { numRuns: 5_000 },
  );
});
