/** @module Tests of the BLAKE3 kernel against published digests and against another implementation. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { createBLAKE3 } from "hash-wasm";
import { HASH_PIECE, joinPieces, pieceValue } from "../../lib/cas/blake3.ts";
import { blake3, createHasher } from "../../lib/cas/mod.ts";
import { upToDate } from "../../scripts/blake3/build.ts";

const hex = (bytes: Uint8Array) =>
  Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const other = await createBLAKE3();
const expected = (bytes: Uint8Array) => other.init().update(bytes).digest();

/** The input of the published test vectors: bytes 0…250, again and again. */
const pattern = (length: number) => Uint8Array.from({ length }, (_, i) => i % 251);

/** Digests of the published test vectors (https://github.com/BLAKE3-team/BLAKE3, test_vectors.json), first 32 bytes. */
const PUBLISHED: Record<number, string> = {
  0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
  1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
  1023: "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
  1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
  1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
  2048: "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
  31744: "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47",
  102400: "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085",
};

for (const [length, digest] of Object.entries(PUBLISHED)) {
  Deno.test(`the digest of the published test vector of ${length} bytes is the published one`, () => {
    assert.equal(hex(blake3(pattern(Number(length)))), digest);
  });
}

Deno.test("every length around the edges of blocks, chunks, groups and pieces has the right digest", () => {
  const edges = [0, 64, 128, 1024, 2048, 3072, 4096, 5120, 6144, 8192, 32768, 65536, 131072, 196608]
    .concat([262144, 327680, 1 << 20, 3 << 20]);
  const bytes = pattern((3 << 20) + 65);
  for (const edge of edges) {
    for (const off of [-65, -64, -1, 0, 1, 63, 64, 65]) {
      if (edge + off < 0) continue;
      const part = bytes.subarray(0, edge + off);
      assert.equal(hex(blake3(part)), expected(part), `${edge + off} bytes`);
    }
  }
});

Deno.test("every number of whole chunks up to two pieces has the right digest, with and without a rest", () => {
  const bytes = pattern(130 * 1024);
  for (let chunks = 0; chunks < 129; chunks++) {
    for (const rest of [0, 1, 777]) {
      const part = bytes.subarray(0, chunks * 1024 + rest);
      assert.equal(hex(blake3(part)), expected(part), `${chunks} chunks and ${rest} bytes`);
    }
  }
});

Deno.test("the digest does not depend on how a stream is cut, nor on other hashers at work", () => {
  const bytes = pattern(700_000);
  const cuts = fc.array(fc.integer({ min: 0, max: 150_000 }), { maxLength: 12 });
  fc.assert(
    fc.property(cuts, cuts, (one, two) => {
      const hashers = [one, two].map((parts) => ({ parts, hasher: createHasher(), at: 0 }));
      for (let turn = 0; turn < 12; turn++) {
        for (const state of hashers) {
          const end = Math.min(bytes.length, state.at + (state.parts[turn] ?? 0));
          state.hasher.update(bytes.subarray(state.at, end));
          state.at = end;
        }
      }
      for (const { hasher, at } of hashers) {
        assert.equal(hex(hasher.digest()), expected(bytes.subarray(0, at)));
      }
    }),
    { numRuns: 40 },
  );
});

Deno.test("a digest may be asked for midway, and more bytes may follow", () => {
  const bytes = pattern(300_000);
  const hasher = createHasher();
  for (
    const [from, to] of [[0, 0], [0, 65536], [65536, 131072], [131072, 131073], [131073, 300_000]]
  ) {
    hasher.update(bytes.subarray(from, to));
    assert.equal(hex(hasher.digest()), expected(bytes.subarray(0, to)));
  }
});

Deno.test("the committed kernel is the one that its source makes", () => {
  assert.ok(upToDate(), "run scripts/blake3/build.ts");
});

Deno.test("pieces that are hashed in any order come to the digest of the whole", () => {
  for (const length of [0, 1, HASH_PIECE, HASH_PIECE + 1, 3 * HASH_PIECE, 17 * HASH_PIECE + 7]) {
    const bytes = new Uint8Array(length).map((_, i) => i * 7 + (i >>> 9));
    const whole = Math.max(0, Math.ceil(length / HASH_PIECE) - 1);
    const values = new Uint8Array(32 * whole);
    for (let i = whole - 1; i >= 0; i--) {
      const piece = bytes.subarray(i * HASH_PIECE, (i + 1) * HASH_PIECE);
      values.set(pieceValue(piece, i), 32 * i);
    }
    assert.deepEqual(joinPieces(values, bytes.subarray(whole * HASH_PIECE)), blake3(bytes));
  }
});
