/**
 * @module Writes a blob of any length as one zstd frame, and hashes it, in one pass.
 *
 * Bytes gather in a batch of blocks that already has the gaps for block headers, so bytes that do not compress go from
 * there to the file as they are. While one batch is hashed and stored, the next one fills.
 */

import { createHasher, HASH_PIECE } from "./blake3.ts";
import { type Batch, BLOCKS, BLOCKS_OF_MANY, giveBatch, takeBatch } from "./frame_batch.ts";
import { type BatchEncoder, encoderOf } from "./frame_encoder.ts";
import { hashesAside, type HashPool, hashPool, startHashPool } from "./hash_pool.ts";
import { isDense } from "./object_encode.ts";
import { BLOCK_MAX, HEADER, writeHeader } from "./zstd_frame.ts";

/** Batches are small when more blobs than this are on their way. */
const MANY = 16;
/** Pieces of a block. */
const PIECES = BLOCK_MAX / HASH_PIECE;

/** Blobs from this size on go through the threads, when they are up. */
const POOL_FROM = 1024 * 1024;
/** A blob of this size is worth the start of the threads. */
const START_FROM = 32 * 1024 * 1024;

/** Batches of one blob under way, besides the one that fills, when few blobs are on their way. */
const POOL_DEPTH = 3;
const FEW = 4;

/** Blobs on their way. */
let writers = 0;

/** Where a frame goes. */
export interface FrameTarget {
  /** Write `bytes` behind what was written so far. They may be reused when it resolves. */
  append(bytes: Uint8Array): Promise<void>;
  /** Write `bytes` over those at `at`. */
  overwrite(bytes: Uint8Array, at: number): Promise<void>;
}

/** A blob on its way into a store. Discard it with {@linkcode FrameWriter.close} in every case. */
export class FrameWriter {
  readonly #target: FrameTarget;
  readonly #announced: number;
  readonly #hasher = createHasher();
  readonly #blocks: number;
  readonly #threads: boolean;
  #current: Batch;
  /** The last one that was stored. */
  #free: Batch | null = null;
  /** Batches being hashed and stored, the oldest first. */
  readonly #busy: { readonly batch: Batch; readonly done: Promise<void> }[] = [];
  #stored: Promise<void> = Promise.resolve();
  #hashed: Promise<void> = Promise.resolve();
  #encoder: BatchEncoder | null = null;
  #started = false;
  #length = 0;
  #pieces = 0;
  #closed = false;

  /**
   * `announced` is the length of the blob, if it is known; another one costs a write more. `threads`: hash in a thread
   * what does not compress.
   */
  constructor(
    target: FrameTarget,
    announced: number | null,
    threads = hashesAside(),
  ) {
    this.#target = target;
    this.#threads = threads;
    this.#announced = announced ?? 0;
    this.#blocks = ++writers > MANY ? BLOCKS_OF_MANY : BLOCKS;
    this.#current = takeBatch(this.#blocks);
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
    writers--;
    this.#encoder?.close();
    // Those that are busy are still read.
    giveBatch(this.#current);
    if (this.#free !== null) giveBatch(this.#free);
  }

  get #usesPool(): boolean {
    if (this.#length < POOL_FROM) return false;
    return this.#threads || this.#encoder !== null;
  }

  /** The current batch is full: go on with another one. */
  async #turn(): Promise<void> {
    const depth = this.#usesPool && writers <= FEW && hashPool() !== null ? POOL_DEPTH : 1;
    while (this.#busy.length >= depth) await this.#oldest();
    const batch = this.#current;
    this.#current = this.#next();
    const done = this.#process(batch, false);
    // Whoever waits for the batch gets its error.
    done.catch(() => {});
    this.#busy.push({ batch, done });
  }

  async #oldest(): Promise<void> {
    const oldest = this.#busy.shift();
    await oldest?.done;
    if (oldest === undefined) return;
    if (this.#free !== null) giveBatch(this.#free);
    this.#free = oldest.batch;
  }

  #next(): Batch {
    const batch = this.#free ?? takeBatch(this.#blocks);
    this.#free = null;
    batch.used = 0;
    return batch;
  }

  /** Store and hash `batch`, after those before it. */
  async #process(batch: Batch, last: boolean): Promise<void> {
    if (!this.#started) this.#start(batch);
    const first = this.#pieces;
    this.#pieces += this.#blocks * PIECES;
    const pool = last || !this.#usesPool ? null : hashPool();
    const [stored, hashed] = [this.#stored, this.#hashed];
    if (this.#encoder === null) {
      this.#stored = stored.then(() => this.#store(batch, last));
      // While it is written from here it cannot be in a thread.
      this.#hashed = pool === null
        ? this.#hashHere(batch, hashed)
        : this.#hash(pool, batch, first, this.#stored, hashed);
    } else {
      this.#hashed = pool === null
        ? this.#hashHere(batch, hashed)
        : this.#hash(pool, batch, first, Promise.resolve(), hashed);
      this.#stored = Promise.all([stored, this.#hashed]).then(() => this.#store(batch, last));
    }
    const both = Promise.all([this.#stored, this.#hashed]);
    // Whoever waits for the batch gets its error.
    for (const one of [this.#stored, this.#hashed]) one.catch(() => {});
    await both;
  }

  async #store(batch: Batch, last: boolean): Promise<void> {
    if (this.#encoder === null) await this.#target.append(batch.frame(last));
    else await this.#compress(this.#encoder, batch, last);
  }

  async #hashHere(batch: Batch, before: Promise<void>): Promise<void> {
    await before;
    for (const block of batch.content()) this.#hasher.update(block);
  }

  async #hash(
    pool: HashPool,
    batch: Batch,
    first: number,
    free: Promise<void>,
    before: Promise<void>,
  ): Promise<void> {
    await free;
    const { bytes, batch: memory } = await pool.hash(
      batch.bytes.buffer,
      this.#blocks * PIECES,
      first,
    );
    batch.bytes = new Uint8Array(memory);
    await before;
    this.#hasher.take(bytes);
  }

  #start(batch: Batch): void {
    this.#started = true;
    if (!isDense(batch.bytes.subarray(0, batch.used))) {
      this.#encoder = encoderOf(this.#announced);
      return;
    }
    if (this.#threads && this.#announced >= START_FROM) void startHashPool();
    const header = new Uint8Array(HEADER);
    writeHeader(header, this.#announced);
    this.#stored = this.#target.append(header);
  }

  async #compress(encoder: BatchEncoder, batch: Batch, last: boolean): Promise<void> {
    for (const bytes of await encoder.write(batch)) await this.#target.append(bytes);
    if (last) { for (const bytes of await encoder.end()) await this.#target.append(bytes); }
  }
}
