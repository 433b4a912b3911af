/** @module Tests of stored objects: one zstd frame each, written by us or by any other encoder. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import fc from "fast-check";
import { isError } from "../../lib/home/mod.ts";
import { decode, decodeSmall } from "../../lib/cas/object_decode.ts";
import { encode, isDense } from "../../lib/cas/object_encode.ts";
import { concat } from "../../lib/cas/streams.ts";
import { FrameWriter } from "../../lib/cas/frame_writer.ts";
import { FrameScanner, parseHeader, rawFrame } from "../../lib/cas/zstd_frame.ts";

const hex = (text: string) =>
  Uint8Array.from(text.match(/../g) ?? [], (byte) => parseInt(byte, 16));

/** The same noise, or text with some redundancy, in every run. */
function sample(length: number, dense: boolean): Uint8Array<ArrayBuffer> {
  let state = length + 1;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return dense ? state >>> 24 : 97 + (state >>> 29);
  });
}

const equals = (a: Uint8Array | null, b: Uint8Array) => a !== null && Buffer.compare(a, b) === 0;

/** `frame` in pieces of `size` bytes. */
async function* pieces(frame: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < frame.length; at += size) {
    yield await Promise.resolve(frame.subarray(at, at + size));
  }
}

async function decoded(frame: Uint8Array, size = 1000): Promise<Uint8Array> {
  const parts = await Array.fromAsync(decode(() => pieces(frame, size)));
  return joined(...parts);
}

function joined(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  return concat(parts, parts.reduce((sum, part) => sum + part.length, 0));
}

async function written(
  data: Uint8Array,
  announced: number | null,
  cut: number,
): Promise<Uint8Array> {
  let frame = new Uint8Array(0);
  const writer = new FrameWriter({
    append: (bytes) => {
      frame = joined(frame, bytes);
      return Promise.resolve();
    },
    overwrite: (bytes, at) => {
      frame.set(bytes, at);
      return Promise.resolve();
    },
  }, announced);
  try {
    for (let at = 0; at < data.length; at += cut) await writer.write(data.subarray(at, at + cut));
    await writer.finish();
    return frame;
  } finally {
    writer.close();
  }
}

/** Frames as piloop 0.3.1 writes them: no length in the header. */
const THEIRS: [string, string, Uint8Array][] = [
  ["the empty blob", "28b52ffd0058010000", new Uint8Array(0)],
  ["abc", "28b52ffd0058190000616263", new TextEncoder().encode("abc")],
];
for (const [what, frame, content] of THEIRS) {
  Deno.test(`the frame that piloop stores for ${what} is read`, async () => {
    assert.deepEqual(decodeSmall(hex(frame), 100), content);
    assert.deepEqual(await decoded(hex(frame), 1), content);
    assert.equal(parseHeader(hex(frame))?.contentSize, null);
  });
}

const LENGTHS = [
  0,
  1,
  4000,
  4100,
  16_384,
  20_000,
  65_536,
  131_071,
  131_072,
  131_073,
  300_000,
  524_288,
  600_000,
];

Deno.test("what is encoded from memory is one frame that says its length, for any decoder", async () => {
  for (const length of LENGTHS) {
    for (const dense of [false, true]) {
      const data = sample(length, dense);
      const frame = await encode(data);
      const scanner = new FrameScanner();
      scanner.push(frame);
      scanner.finish();
      assert.equal(scanner.header?.contentSize, length);
      assert.ok(equals(zstdDecompressSync(frame), data), `${length} ${dense}`);
      assert.ok(equals(decodeSmall(frame, 1 << 20), data));
    }
  }
});

Deno.test("what is written from a stream is one frame that says its length, for any decoder", async () => {
  for (const length of LENGTHS.filter((length) => length > 0)) {
    for (const dense of [false, true]) {
      for (const announced of [null, length]) {
        const data = sample(length, dense);
        const frame = await written(data, announced, 50_001);
        const scanner = new FrameScanner();
        scanner.push(frame);
        scanner.finish();
        assert.equal(scanner.header?.contentSize, length);
        assert.ok(equals(zstdDecompressSync(frame), data), `${length} ${dense}`);
        assert.ok(equals(await decoded(frame, 70_000), data));
      }
    }
  }
});

Deno.test("frames of other encoders are read, however the file is cut", async () => {
  const text = sample(200_000, false);
  const mixed = joined(sample(140_000, true), text, new Uint8Array(300_000));
  for (const data of [text, mixed, new Uint8Array(1_000_000), sample(1, true)]) {
    for (const checksum of [0, 1]) {
      for (const pledged of [false, true]) {
        const frame = Uint8Array.from(zstdCompressSync(data, {
          chunkSize: 4 << 20,
          params: {
            [constants.ZSTD_c_checksumFlag]: checksum,
            [constants.ZSTD_c_compressionLevel]: 5,
          },
          ...(pledged ? { pledgedSrcSize: data.length } : {}),
        }));
        for (const size of [frame.length, 5000]) {
          assert.ok(equals(await decoded(frame, size), data));
        }
        assert.ok(equals(decodeSmall(frame, 4 << 20), data));
      }
    }
  }
});

Deno.test("blocks that repeat a byte are read without a decoder", () => {
  // Our header for 5 bytes, a block of five times 'z', an empty last block.
  const frame = hex("28b52ffdc0380500000000000000" + "2a00007a" + "010000");
  assert.deepEqual(decodeSmall(frame, 100), new TextEncoder().encode("zzzzz"));
});

Deno.test("a frame of ours whose later blocks are compressed is read", async () => {
  const [head, tail] = [sample(131_072, true), sample(100_000, false)];
  const compressed = zstdCompressSync(tail, { chunkSize: 1 << 20 });
  const from = parseHeader(compressed)?.bytes ?? 0;
  const raw = rawFrame(head);
  raw[14] = (raw[14] ?? 0) & ~1;
  const length = head.length + tail.length;
  new DataView(raw.buffer).setBigUint64(6, BigInt(length), true);
  const frame = joined(raw, compressed.subarray(from));
  assert.deepEqual(await decoded(frame, 10_000), joined(head, tail));
});

const refuses = async (frame: Uint8Array) => {
  assert.throws(() => decodeSmall(frame, 1 << 22), (error) => isError(error, "integrity"));
  for (const size of [1 << 20, 999]) {
    await assert.rejects(decoded(frame, size), (error) => isError(error, "integrity"));
  }
};

Deno.test("a frame that is cut off anywhere is refused", async () => {
  for (const data of [sample(300, true), sample(9000, false), new Uint8Array(50_000)]) {
    const frame = await encode(data);
    for (let length = 0; length < frame.length; length += Math.ceil(frame.length / 60)) {
      await refuses(frame.subarray(0, length));
    }
    await refuses(frame.subarray(0, frame.length - 1));
  }
});

Deno.test("a frame that is followed by anything is refused, another frame included", async () => {
  for (const data of [sample(300, true), sample(9000, false)]) {
    const frame = await encode(data);
    for (
      const more of [[0], [...frame], [...rawFrame(new Uint8Array(0))], [
        0x50,
        0x2a,
        0x4d,
        0x18,
        0,
        0,
        0,
        0,
      ]]
    ) {
      await refuses(Uint8Array.from([...frame, ...more]));
    }
  }
});

Deno.test("what is no frame is refused: other bytes, a dictionary, reserved bits and types, wrong lengths", async () => {
  const magic = "28b52ffd";
  for (
    const frame of [
      "",
      "00",
      "504b0304000000000000",
      `${magic}08580100 00`,
      `${magic}0158070100 00`,
      `${magic}c0380300000000000000 070000`,
      `${magic}c0380300000000000000 110000 6162`,
      `${magic}c0380200000000000000 190000616263`,
      `${magic}c038ffffffffffffffff 190000616263`,
      `${magic}c0380300000000000000 0900186162`,
    ]
  ) await refuses(hex(frame.replaceAll(" ", "")));
});

Deno.test("no flipped bit ends the process or hangs a read, and one that changes the length is refused", async () => {
  const frame = await encode(sample(400_000, false));
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: frame.length * 8 - 1 }), async (bit) => {
      const flipped = Uint8Array.from(frame);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const found = await decoded(flipped, 262_144).then((bytes) => bytes.length, (error) => {
        assert.ok(isError(error, "integrity"), String(error));
        return null;
      });
      assert.ok(found === null || found === 400_000);
    }),
    { numRuns: 60 },
  );
});

Deno.test("a frame that expands without end is not expanded in memory", () => {
  const blocks = Array.from({ length: 1000 }, (_, i) => i === 999 ? "03001061" : "02001061").join(
    "",
  );
  const frame = hex(`28b52ffd0058${blocks}`);
  assert.equal(decodeSmall(frame, 1 << 20), null);
});

Deno.test("noise is dense, text and runs are not", () => {
  for (const length of [4200, 20_000, 600_000]) {
    assert.equal(isDense(sample(length, true)), true);
    assert.equal(isDense(sample(length, false)), false);
    assert.equal(isDense(new Uint8Array(length)), false);
  }
});
