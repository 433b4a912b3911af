/** @module The pieces in which a blob goes into a store: see `frame_writer.ts`. */

import { blocksOf } from "./hash_jobs.ts";
import { BLOCK, BLOCK_HEADER, BLOCK_MAX, writeBlockHeader } from "./zstd_frame.ts";

const STRIDE = BLOCK_HEADER + BLOCK_MAX;

/** Blocks of a batch: half a MiB, or an eighth when many blobs are on their way, so that they need little memory. */
export const BLOCKS = 4;
/** See {@linkcode BLOCKS}. */
export const BLOCKS_OF_MANY = 1;

/** Blocks of content, each behind the gap for its header. */
export class Batch {
  /** In a thread, for a while, and not here. */
  bytes: Uint8Array<ArrayBuffer>;
  used = 0;

  constructor(readonly blocks: number) {
    this.bytes = new Uint8Array(blocks * STRIDE);
  }

  /** How many of `source` found room. */
  fill(source: Uint8Array): number {
    let at = 0;
    while (at < source.length && this.used < this.blocks * BLOCK_MAX) {
      const inBlock = this.used % BLOCK_MAX;
      const take = Math.min(source.length - at, BLOCK_MAX - inBlock);
      const block = Math.floor(this.used / BLOCK_MAX);
      this.bytes.set(source.subarray(at, at + take), block * STRIDE + BLOCK_HEADER + inBlock);
      this.used += take;
      at += take;
    }
    return at;
  }

  /** The content, block by block. */
  content(): Uint8Array[] {
    return blocksOf(this.bytes, this.used);
  }

  /** The batch as raw blocks. */
  frame(last: boolean): Uint8Array {
    const count = Math.max(last ? 1 : 0, Math.ceil(this.used / BLOCK_MAX));
    for (let i = 0; i < count; i++) {
      const size = Math.min(BLOCK_MAX, this.used - i * BLOCK_MAX);
      writeBlockHeader(this.bytes, i * STRIDE, BLOCK.raw, size, last && i === count - 1);
    }
    return this.bytes.subarray(0, count * BLOCK_HEADER + this.used);
  }
}

/** Batches that nobody uses, kept for the next blob: no more than so many. */
const SPARE = 8;
const spare: Batch[] = [];

/** A batch of so many blocks, with nothing in it. */
export function takeBatch(blocks: number): Batch {
  const batch = (blocks === BLOCKS ? spare.pop() : undefined) ?? new Batch(blocks);
  batch.used = 0;
  return batch;
}

/** Nobody uses `batch` any more. */
export function giveBatch(batch: Batch): void {
  // One that a thread took with it when it died is no batch any more.
  if (batch.bytes.length === BLOCKS * STRIDE && spare.length < SPARE) spare.push(batch);
}
