/** @module Reads the content of a frame of ours straight from its file, from any place on. */

import { BLOCK, BLOCK_HEADER, BLOCK_MAX, HEADER, writeBlockHeader } from "./zstd_frame.ts";

const STRIDE = BLOCK_HEADER + BLOCK_MAX;

/** Reads `target.length` bytes at `at`, or fewer at the end; how many. */
export type ReadAt = (target: Uint8Array, at: number) => Promise<number>;

/** Bytes of the frame of raw blocks that we write for a blob of `length` bytes. */
export function rawFrameSize(length: number): number {
  return HEADER + Math.max(1, Math.ceil(length / BLOCK_MAX)) * BLOCK_HEADER + length;
}

/** Blocks of a read. */
const BLOCKS = 2;

/**
 * Reads bytes `from` up to and without `to` of a blob of `length` bytes, block by block, from a file that is as large as
 * our frame of raw blocks would be. The next blocks are on their way while the last ones are used.
 */
export class RawReader {
  /** The place in the blob up to which it has come. */
  at: number;
  readonly #readAt: ReadAt;
  readonly #length: number;
  readonly #to: number;
  /** Pieces that were read. */
  #ready: Uint8Array<ArrayBuffer>[] = [];
  #ahead: Promise<Uint8Array<ArrayBuffer>[]>;
  /** The place in the blob up to which the read ahead goes. */
  #asked: number;

  constructor(readAt: ReadAt, length: number, from: number, to: number) {
    this.#readAt = readAt;
    this.#length = length;
    this.at = this.#asked = from;
    this.#to = to;
    this.#ahead = this.#read();
  }

  /** The next piece. Null: all was read, or the block at `at` is none of ours. */
  async next(): Promise<Uint8Array<ArrayBuffer> | null> {
    if (this.#ready.length === 0) {
      this.#ready = (await this.#ahead).reverse();
      const came = this.#ready.reduce((at, piece) => at + piece.length, this.at);
      // Nothing follows a block that is none of ours.
      this.#ahead = came === this.#asked ? this.#read() : Promise.resolve([]);
    }
    const piece = this.#ready.pop();
    if (piece === undefined) return null;
    this.at += piece.length;
    return piece;
  }

  /** The content of the next blocks, up to the first that is none of ours. */
  #read(): Promise<Uint8Array<ArrayBuffer>[]> {
    const from = this.#asked;
    const first = Math.floor(from / BLOCK_MAX);
    const end = Math.min((first + BLOCKS) * BLOCK_MAX, this.#length);
    this.#asked = Math.min(end, this.#to);
    const read = this.#pieces(from, this.#asked, first);
    // Whoever asks for them gets the error.
    read.catch(() => {});
    return read;
  }

  async #pieces(from: number, to: number, first: number): Promise<Uint8Array<ArrayBuffer>[]> {
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    if (from >= to) return pieces;
    const last = Math.floor((to - 1) / BLOCK_MAX);
    const start = first * BLOCK_MAX;
    const bytes = new Uint8Array((last - first + 1) * BLOCK_HEADER + to - start);
    const count = await this.#readAt(bytes, HEADER + first * STRIDE);
    if (count < bytes.length) return pieces;
    for (let index = first; index <= last; index++) {
      const at = (index - first) * STRIDE;
      if (!this.#isHeader(bytes.subarray(at, at + BLOCK_HEADER), index)) break;
      const skip = index === first ? from - start : 0;
      const size = Math.min(BLOCK_MAX, to - index * BLOCK_MAX);
      pieces.push(bytes.subarray(at + BLOCK_HEADER + skip, at + BLOCK_HEADER + size));
    }
    return pieces;
  }

  #isHeader(bytes: Uint8Array, index: number): boolean {
    const expected = new Uint8Array(BLOCK_HEADER);
    const size = Math.min(BLOCK_MAX, this.#length - index * BLOCK_MAX);
    const last = (index + 1) * BLOCK_MAX >= this.#length;
    writeBlockHeader(expected, 0, BLOCK.raw, size, last);
    return expected.every((byte, i) => bytes[i] === byte);
  }
}
