/** @module Reads the content of a frame of ours straight from its file, from any place on. */

import { BLOCK, BLOCK_HEADER, BLOCK_MAX, HEADER, writeBlockHeader } from "./zstd_frame.ts";

const STRIDE = BLOCK_HEADER + BLOCK_MAX;

/** Reads `target.length` bytes at `at`, or fewer at the end; how many. */
export type ReadAt = (target: Uint8Array, at: number) => Promise<number>;

/** Bytes of the frame of raw blocks that we write for a blob of `length` bytes. */
export function rawFrameSize(length: number): number {
  return HEADER + Math.max(1, Math.ceil(length / BLOCK_MAX)) * BLOCK_HEADER + length;
}

/** Whether `bytes` are the header of block `index` of a blob of `length` bytes. */
function isHeader(bytes: Uint8Array, index: number, length: number): boolean {
  const expected = new Uint8Array(BLOCK_HEADER);
  const size = Math.min(BLOCK_MAX, length - index * BLOCK_MAX);
  writeBlockHeader(expected, 0, BLOCK.raw, size, (index + 1) * BLOCK_MAX >= length);
  return bytes.length === BLOCK_HEADER && expected.every((byte, i) => bytes[i] === byte);
}

/** Bytes of a read. Larger buffers are slower: each is new memory, not what an earlier one left. */
const READ = BLOCK_MAX / 2;

/**
 * Bytes `from` up to and without `to` of a blob of `length` bytes in a file that is as large as our frame of raw blocks
 * would be. Returns at the first block that is none of ours: the place in the blob up to which it came.
 */
export async function* readRaw(
  readAt: ReadAt,
  length: number,
  from: number,
  to: number,
): AsyncGenerator<Uint8Array, number, undefined> {
  let index = Math.floor(from / BLOCK_MAX);
  let header: Uint8Array = new Uint8Array(BLOCK_HEADER);
  await readAt(header, HEADER + index * STRIDE);
  for (let at = from; at < to; index++) {
    const start = index * BLOCK_MAX;
    const end = Math.min(length, start + BLOCK_MAX);
    if (!isHeader(header, index, length)) return at;
    while (at < Math.min(end, to)) {
      const size = Math.min(READ, end - at);
      // With the last part of a block comes the header of the next.
      const more = at + size === end && end < length ? BLOCK_HEADER : 0;
      const bytes = new Uint8Array(size + more);
      const count = await readAt(bytes, HEADER + index * STRIDE + BLOCK_HEADER + at - start);
      if (count < bytes.length) return at;
      header = bytes.subarray(size);
      const part = bytes.subarray(0, Math.min(size, to - at));
      at += part.length;
      yield part;
    }
  }
  return to;
}
