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

/**
 * Reads bytes `from` up to and without `to` of a blob of `length` bytes, block by block, from a file that is as large as
 * our frame of raw blocks would be. The next block is on its way while the last one is used.
 */
export class RawReader {
  /** The place in the blob up to which it has come. */
  at: number;
  readonly #readAt: ReadAt;
  readonly #length: number;
  readonly #to: number;
  /** The header of the block that is next, when the read before brought it. */
  #header: Uint8Array | null = null;
  #ahead: Promise<Uint8Array<ArrayBuffer> | null> | null = null;

  constructor(readAt: ReadAt, length: number, from: number, to: number) {
    this.#readAt = readAt;
    this.#length = length;
    this.at = from;
    this.#to = to;
  }

  /** The next piece, which has a buffer of its own. Null: all was read, or the block at `at` is none of ours. */
  async next(): Promise<Uint8Array<ArrayBuffer> | null> {
    const piece = await (this.#ahead ?? this.#read(this.at));
    if (piece === null) return null;
    this.at += piece.length;
    this.#ahead = this.#read(this.at);
    // Whoever asks for it gets its error.
    this.#ahead.catch(() => {});
    return piece;
  }

  /** The piece from `at` to the end of its block. */
  async #read(at: number): Promise<Uint8Array<ArrayBuffer> | null> {
    if (at >= this.#to) return null;
    const index = Math.floor(at / BLOCK_MAX);
    const start = index * BLOCK_MAX;
    const place = HEADER + index * STRIDE;
    if (this.#header === null) {
      this.#header = new Uint8Array(BLOCK_HEADER);
      await this.#readAt(this.#header, place);
    }
    if (!isHeader(this.#header, index, this.#length)) return null;
    const end = Math.min(this.#length, start + BLOCK_MAX);
    // With a block comes the header of the next.
    const size = end - at;
    const bytes = new Uint8Array(size + (end < this.#length ? BLOCK_HEADER : 0));
    if (await this.#readAt(bytes, place + BLOCK_HEADER + at - start) < bytes.length) return null;
    this.#header = bytes.slice(size);
    return bytes.subarray(0, Math.min(end, this.#to) - at);
  }
}
