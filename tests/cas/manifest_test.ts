/** @module Tests of manifests: their one form, and what is refused. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeDrisl } from "../../lib/cas/drisl_decode.ts";
import { encodeDrisl } from "../../lib/cas/drisl_encode.ts";
import { type Drisl, Link } from "../../lib/cas/drisl.ts";
import {
  cidOf,
  decodeManifest,
  drislCid,
  encodeManifest,
  type Entry,
  openMemory,
  putManifest,
  readManifest,
} from "../../lib/cas/mod.ts";
import { digestOf } from "../../lib/cas/mod.ts";
import { isError, unsafeReason } from "../../lib/home/mod.ts";

const EMPTY = "a167656e747269657380";
const EMPTY_CID = "bafyr4id34nxqhp2ckyg5e5dwlbobtczdddjn6tuirkhxxozntl3qnzuiuq";
const TWO =
  "a167656e747269657382a564626c6f62d82a58250001551e206437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5" +
  "bd9d85646d6f64651901a4647061746865612e7478746473697a6503686d74696d655f6e731b17979cfe362a0000a4646c696e6b6561" +
  "2e747874646d6f64651901ff6470617468616c6473697a6500";
const TWO_CID = "bafyr4iewrvl2xsxrxpxwcsk5zmaypztb3mz4hecarecokyc7pnqjm3cvtm";

const abc = cidOf(new TextEncoder().encode("abc"));
const two: Entry[] = [
  { path: "a.txt", mode: 0o644, size: 3, mtimeNs: 1_700_000_000_000_000_000n, blob: abc },
  { path: "l", mode: 0o777, size: 0, link: "a.txt" },
];

const hex = (bytes: Uint8Array) => bytes.toHex();
const code = (...codes: Parameters<typeof isError>[1][]) => (error: unknown) =>
  isError(error, ...codes);

/** The bytes of a manifest whose entries are exactly `entries`, whatever they are. */
function raw(...entries: Drisl[]): Uint8Array {
  return encodeDrisl({ entries });
}

const file = { path: "a", mode: 420, size: 3, blob: new Link(abc) };

Deno.test("a manifest without entries has the known bytes and address", async () => {
  assert.equal(hex(encodeManifest([])), EMPTY);
  assert.equal(await putManifest(openMemory(), []), EMPTY_CID);
  assert.deepEqual(decodeManifest(Uint8Array.fromHex(EMPTY)), { entries: [] });
});

Deno.test("a file and a symbolic link have the known bytes and address", async () => {
  const cas = openMemory();
  assert.equal(hex(encodeManifest(two.toReversed())), TWO);
  assert.equal(await putManifest(cas, two), TWO_CID);
  assert.deepEqual(
    (await readManifest(cas, drislCid(digestOf(cidOf(Uint8Array.fromHex(TWO)))))).entries,
    two,
  );
});

Deno.test("a manifest that is read back is what was stored", () => {
  const name = fc.stringMatching(/^[a-z\u00e9\u{1f600}\uffee -]{1,8}$/u)
    .filter((path) => unsafeReason(path) === null);
  const entry = fc.record({
    path: name,
    mode: fc.integer({ min: 0, max: 0o7777 }),
    size: fc.nat({ max: 2 ** 40 }),
  });
  fc.assert(fc.property(fc.uniqueArray(entry, { selector: (item) => item.path }), (items) => {
    const entries = items.map((item): Entry => ({ ...item, blob: abc }));
    const bytes = encodeManifest(entries);
    const decoded = decodeManifest(bytes);
    assert.equal(decoded.entries.length, entries.length);
    assert.deepEqual(encodeManifest(decoded.entries), bytes);
  }));
});

Deno.test("paths sort by code point, not by UTF-16 unit", () => {
  const entries = ["\u{1f600}", "\uffee"].map((path): Entry => ({
    path,
    mode: 0,
    size: 0,
    blob: abc,
  }));
  const paths = decodeManifest(encodeManifest(entries)).entries.map((entry) => entry.path);
  assert.deepEqual(paths, ["\uffee", "\u{1f600}"]);
});

const notManifests: Record<string, Uint8Array> = {
  "no map": encodeDrisl([]),
  "another key beside entries": encodeDrisl({ entries: [], more: 1 }),
  "entries that are no list": encodeDrisl({ entries: {} }),
  "an unknown key of an entry": raw({ ...file, owner: 0 }),
  "an entry without a path": raw({ mode: 0, size: 0, blob: new Link(abc) }),
  "an entry without a size": raw({ path: "a", mode: 0, blob: new Link(abc) }),
  "a negative size": raw({ ...file, size: -1 }),
  "a mode beyond the permission bits": raw({ ...file, mode: 0o10000 }),
  "a mode that is text": raw({ ...file, mode: "420" }),
  "an mtime that is text": raw({ ...file, mtime_ns: "1" }),
  "neither blob nor link": raw({ path: "a", mode: 0, size: 0 }),
  "both blob and link": raw({ ...file, link: "b" }),
  "a null field": raw({ ...file, link: null }),
  "a blob that is text": raw({ ...file, blob: "abc" }),
  "a link without a target": raw({ path: "a", mode: 0, size: 0, link: "" }),
  "a link to a target with a NUL": raw({ path: "a", mode: 0, size: 0, link: "a\0b" }),
  "paths out of order": raw({ ...file, path: "b" }, file),
  "one path twice": raw(file, file),
  "a file that is a directory of another": raw(file, { ...file, path: "a-b" }, {
    ...file,
    path: "a/b",
  }),
};
for (const [what, bytes] of Object.entries(notManifests)) {
  Deno.test(`a manifest with ${what} is refused`, () => {
    assert.throws(() => decodeManifest(bytes), code("integrity"));
  });
}

for (
  const path of [
    "",
    "/etc/passwd",
    "../x",
    "a/../b",
    "a//b",
    "./a",
    "a/",
    "C:x",
    "a\\b",
    "a\0b",
    ".git/config",
  ]
) {
  Deno.test(`a manifest with the path ${JSON.stringify(path)} is refused`, () => {
    assert.throws(() => decodeManifest(raw({ ...file, path })), code("unsafe_path"));
    assert.throws(
      () => encodeManifest([{ path, mode: 0, size: 0, blob: abc }]),
      code("unsafe_path"),
    );
  });
}

const notCanonical: Record<string, string> = {
  "a length in a longer form": "b80167656e747269657380",
  "a number in a longer form": "a167656e74726965738119 0001",
  "an 8-byte number that fits in 4": "811b00000000ffffffff",
  "keys out of order": "a2616200616100",
  "a shorter key after a longer one": "a26261610061620 0",
  "a key twice": "a2616100616100",
  "a key that is no text": "a10000",
  "an indefinite list": "9fff",
  "a float": "fb3ff0000000000000",
  "undefined": "f7",
  "a tag other than 42": "c000",
  "a link without its leading zero": "d82a4100",
  "a link to a SHA-256 CID": `d82a58250001551220${"00".repeat(32)}`,
  "text that is not UTF-8": "61ff",
  "an integer beyond 64 signed bits": "1bffffffffffffffff",
  "a list that ends too soon": "82 00",
  "a length far beyond the bytes": "9b00ffffffffffffff",
  "bytes after its end": "8000",
  "no bytes": "",
  "too deep a nesting": "81".repeat(200) + "00",
};
for (const [what, text] of Object.entries(notCanonical)) {
  Deno.test(`DRISL with ${what} is refused`, () => {
    assert.throws(
      () => decodeDrisl(Uint8Array.fromHex(text.replaceAll(" ", ""))),
      code("integrity"),
    );
  });
}

Deno.test("DRISL integers go from -2^63 to 2^63 - 1", () => {
  for (
    const value of [
      0,
      23,
      24,
      255,
      256,
      65_535,
      65_536,
      2 ** 32,
      -1,
      -25,
      2n ** 63n - 1n,
      -(2n ** 63n),
    ]
  ) {
    assert.equal(decodeDrisl(encodeDrisl(value)), value);
  }
  assert.throws(() => encodeDrisl(2n ** 63n), code("integrity"));
  assert.throws(() => encodeDrisl(0.5), code("integrity"));
});

Deno.test("no bytes make the decoder fail in another way than integrity or unsafe_path", () => {
  const valid = Uint8Array.fromHex(TWO);
  fc.assert(
    fc.property(fc.nat(valid.length - 1), fc.nat(255), fc.nat(valid.length), (at, byte, end) => {
      const bytes = valid.slice(0, end);
      if (at < end) bytes[at] = byte;
      try {
        assert.deepEqual(encodeManifest(decodeManifest(bytes).entries), bytes);
      } catch (error) {
        assert.ok(isError(error, "integrity", "unsafe_path"), String(error));
      }
    }),
  );
});

Deno.test("a manifest that the store lacks is not found, and a raw address is refused", async () => {
  const cas = openMemory();
  await assert.rejects(readManifest(cas, drislCid(digestOf(abc))), code("not_found"));
  await assert.rejects(readManifest(cas, abc), code("integrity"));
});
