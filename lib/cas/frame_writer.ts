/**
 * @module Writes a blob of any length as one zstd frame, and hashes it, in one pass.
 *
 * Bytes gather in a batch of blocks that already has the gaps for block headers, so bytes that do not compress go from
 * there to the file as they are. While one batch is hashed and stored, the next one fills.
 */

import { createHasher, HASH_PIECE } from "./blake3.ts";
import { hashPool, startHashPool } from "./hash_pool.ts";
import { isDense } from "./object_encode.ts";
import {
  BLOCK,
  BLOCK_HEADER,
  BLOCK_MAX,
  HEADER,
  writeBlockHeader,
  writeHeader,
} from "./zstd_frame.ts";
import { createEncoder, type Steps } from "./zstd_steps.ts";

/** Blocks of a batch: half a MiB. */
const BLOCKS = 4;
const STRIDE = BLOCK_HEADER + BLOCK_MAX;
const CAPACITY = BLOCKS * BLOCK_MAX;
const PIECES = CAPACITY / HASH_PIECE;

/** Blobs from this size on go through the threads, when they are up. */
const POOL_FROM = 1024 * 1024;
/** A blob of this size is worth the start of the threads. */
const START_FROM = 32 * 1024 * 1024;
/** Batches of one blob under way, besides the one that fills. */
const POOL_DEPTH = 3;

/** Where a frame goes. */
export interface FrameTarget {
  /** Write `bytes` behind what was written so far. They may be reused when it resolves. */
  append(bytes: Uint8Array): Promise<void>;
  /** Write `bytes` over those at `at`. */
  overwrite(bytes: Uint8Array, at: number): Promise<void>;
}

/** Blocks of content, each behind the gap for its header. */
class Batch {
  readonly bytes = new Uint8Array(new SharedArrayBuffer(BLOCKS * STRIDE));
  used = 0;

  /** How many of `source` found room. */
  fill(source: Uint8Array): number {
    let at = 0;
    while (at < source.length && this.used < CAPACITY) {
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
  blocks(): Uint8Array[] {
    return Array.from({ length: Math.ceil(this.used / BLOCK_MAX) }, (_, i) => {
      const from = i * STRIDE + BLOCK_HEADER;
      return this.bytes.subarray(from, from + Math.min(BLOCK_MAX, this.used - i * BLOCK_MAX));
    });
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

function takeBatch(): Batch {
  const batch = spare.pop() ?? new Batch();
  batch.used = 0;
  return batch;
}

function giveBatch(batch: Batch): void {
  if (spare.length < SPARE) spare.push(batch);
}

/** A blob on its way into a store. Discard it with {@linkcode FrameWriter.close} in every case. */
export class FrameWriter {
  readonly #target: FrameTarget;
  readonly #announced: number;
  readonly #hasher = createHasher();
  #current = takeBatch();
  /** Batches being hashed and stored, the oldest first. */
  readonly #busy: { readonly batch: Batch; readonly done: Promise<void> }[] = [];
  #stored: Promise<void> = Promise.resolve();
  #hashed: Promise<void> = Promise.resolve();
  #encoder: Steps | null = null;
  #started = false;
  #length = 0;
  #pieces = 0;
  #closed = false;

  /** `announced` is the length of the blob, if it is known; another one costs a write more. */
  constructor(target: FrameTarget, announced: number | null) {
    this.#target = target;
    this.#announced = announced ?? 0;
  }

  /** Bytes taken so far. */
  get length(): number {
    return this.#length;
  }

  /** Take the next bytes; they are copied before it resolves. Rejects when storing failed. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#length += bytes.length;
    let at = this.#current.fill(bytes);
    while (at < bytes.length) {
      await this.#turn();
      at += this.#current.fill(bytes.subarray(at));
    }
  }

  /** Store the rest; the digest of the blob. */
  async finish(): Promise<Uint8Array<ArrayBuffer>> {
    while (this.#busy.length > 0) await this.#oldest();
    await this.#process(this.#current, true);
    if (this.#length !== this.#announced) {
      const header = new Uint8Array(HEADER);
      writeHeader(header, this.#length);
      await this.#target.overwrite(header.subarray(HEADER - 8), HEADER - 8);
    }
    return this.#hasher.digest();
  }

  /** Release what it holds. Bytes under way are abandoned. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#encoder?.close();
    // Those that are busy are still read.
    giveBatch(this.#current);
  }

  /** The current batch is full: go on with another one. */
  async #turn(): Promise<void> {
    const depth = this.#length > POOL_FROM && hashPool() !== null ? POOL_DEPTH : 1;
    while (this.#busy.length >= depth) await this.#oldest();
    const batch = this.#current;
    this.#current = takeBatch();
    const done = this.#process(batch, false);
    // Whoever waits for the batch gets its error.
    done.catch(() => {});
    this.#busy.push({ batch, done });
  }

  async #oldest(): Promise<void> {
    const oldest = this.#busy.shift();
    await oldest?.done;
    if (oldest !== undefined) giveBatch(oldest.batch);
  }

  /** Store and hash `batch`, after those before it. */
  async #process(batch: Batch, last: boolean): Promise<void> {
    if (!this.#started) this.#start(batch);
    const encoder = this.#encoder;
    const stored = this.#stored = this.#stored.then(() =>
      encoder === null
        ? this.#target.append(batch.frame(last))
        : this.#compress(encoder, batch, last)
    );
    stored.catch(() => {});
    this.#hashed = this.#hash(batch, last);
    this.#hashed.catch(() => {});
    await this.#hashed;
    await stored;
  }

  async #hash(batch: Batch, last: boolean): Promise<void> {
    const before = this.#hashed;
    const first = this.#pieces;
    this.#pieces += PIECES;
    const pool = last || this.#length < POOL_FROM ? null : hashPool();
    if (pool === null) {
      await before;
      for (const block of batch.blocks()) this.#hasher.update(block);
      return;
    }
    const values = await pool.run({ type: "batch", bytes: batch.bytes, pieces: PIECES, first });
    await before;
    this.#hasher.take(values);
  }

  #start(batch: Batch): void {
    this.#started = true;
    if (Math.max(this.#announced, this.#length) > START_FROM) void startHashPool();
    if (!isDense(batch.bytes.subarray(0, batch.used))) {
      const pool = this.#announced < POOL_FROM ? null : hashPool();
      this.#encoder = pool?.encoder(this.#announced) ?? createEncoder(this.#announced);
    } else {
      const header = new Uint8Array(HEADER);
      writeHeader(header, this.#announced);
      this.#stored = this.#target.append(header);
    }
  }

  async #compress(encoder: Steps, batch: Batch, last: boolean): Promise<void> {
    for (const block of batch.blocks()) {
      for (const bytes of await encoder.write(block)) await this.#target.append(bytes);
    }
    if (last) { for (const bytes of await encoder.end()) await this.#target.append(bytes); }
  }
}
