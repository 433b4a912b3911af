/**
 * @module From the bytes of a blob to its stored object: one zstd frame whose header says the length.
 *
 * Bytes that do not compress, and blobs that fit a disk's block anyway, become raw blocks.
 */

import { promisify } from "node:util";
import { constants, zstdCompress, zstdCompressSync } from "node:zlib";
import { FrameScanner, HEADER, parseHeader, rawFrame, writeHeader } from "./zstd_frame.ts";

/** The level of small blobs, and of every other writer of such stores. */
export const LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };

/** Blobs up to this size take one block of 4 KiB on a disk, compressed or not. */
const ONE_BLOCK = 4096 - 64;

/** Larger blobs are compressed off the main thread. */
const SYNC_MAX = 16 * 1024;

/** Bits of entropy in a byte from which on compressing is not worth its time. */
const DENSE = 7.8;

const compressAside = promisify(zstdCompress) as (
  data: Uint8Array,
  options: typeof LEVEL,
) => Promise<Uint8Array>;

/** Whether `data` looks as if it would not compress (ciphertext, media, archives), by the bytes at a few places. */
export function isDense(data: Uint8Array): boolean {
  const samples = 4;
  const size = Math.min(4096, Math.floor(data.length / samples));
  // The fewer bytes, the lower the entropy of even random ones.
  if (size < 1024) return false;
  const counts = new Uint32Array(256);
  const step = Math.floor((data.length - size) / (samples - 1));
  for (let sample = 0; sample < samples; sample++) {
    const from = sample * step;
    for (let i = from; i < from + size; i++) {
      const byte = data[i] ?? 0;
      counts[byte] = (counts[byte] ?? 0) + 1;
    }
  }
  const total = samples * size;
  let bits = 0;
  for (const count of counts) if (count > 0) bits -= count * Math.log2(count / total);
  return bits / total >= DENSE;
}

/** `frame`, or its start, with a header that says `length`. Null: too few bytes to know the header that it has. */
export function withLength(frame: Uint8Array, length: number): Uint8Array | null {
  const header = parseHeader(frame);
  const window = frame[5];
  if (header === null || window === undefined) return null;
  // A header with a size has it right already, and may lack the window's byte.
  if (header.contentSize !== null) return frame;
  const result = new Uint8Array(HEADER + frame.length - header.bytes);
  writeHeader(result, length, window);
  result.set(frame.subarray(header.bytes), HEADER);
  return result;
}

/**
 * The first frame of `bytes`. Deno's zstd adds an empty second one when the first did not fit its buffer at once (seen
 * in 2.6.10 and 2.9.6), and an object is exactly one frame.
 */
function firstFrame(bytes: Uint8Array): Uint8Array {
  const scanner = new FrameScanner();
  const frame = bytes.subarray(0, scanner.take(bytes));
  scanner.finish();
  return frame;
}

/** The stored object of a blob that is in memory. */
export async function encode(data: Uint8Array): Promise<Uint8Array> {
  if (data.length <= ONE_BLOCK || isDense(data)) return rawFrame(data);
  const frame = firstFrame(
    data.length <= SYNC_MAX ? zstdCompressSync(data, LEVEL) : await compressAside(data, LEVEL),
  );
  const smaller = frame.length < data.length * 0.97 ? withLength(frame, data.length) : null;
  return smaller ?? rawFrame(data);
}
