/**
 * @module Writes a blob of any length as one zstd frame, and hashes it, in one pass.
 *
 * Bytes gather in a batch of blocks that already has the gaps for block headers, so bytes that do not compress go from
 * there to the file as they are. While one batch is hashed and stored, the next one fills.
 */

import { createHasher } from "./blake3.ts";
import { isDense } from "./object_encode.ts";
import {
  BLOCK,
  BLOCK_HEADER,
  BLOCK_MAX,
  HEADER,
  writeBlockHeader,
  writeHeader,
} from "./zstd_frame.ts";
import { createEncoder } from "./zstd_steps.ts";

/** Blocks of a batch: half a MiB. */
const BLOCKS = 4;
const STRIDE = BLOCK_HEADER + BLOCK_MAX;
const CAPACITY = BLOCKS * BLOCK_MAX;

/** Where a frame goes. */
export interface FrameTarget {
  /** Write `bytes` behind what was written so far. They may be reused when it resolves. */
  append(bytes: Uint8Array): Promise<void>;
  /** Write `bytes` over those at `at`. */
  overwrite(bytes: Uint8Array, at: number): Promise<void>;
}

/** Blocks of content, each behind the gap for its header. */
class Batch {
  readonly bytes = new Uint8Array(BLOCKS * STRIDE);
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

/** A blob on its way into a store. Discard it with {@linkcode FrameWriter.close} in every case. */
export class FrameWriter {
  readonly #target: FrameTarget;
  readonly #announced: number;
  readonly #hasher = createHasher();
  #current = new Batch();
  #spare: Batch | null = null;
  /** The batch before the current one, being hashed and stored. */
  #busy: Promise<void> = Promise.resolve();
  #encoder: ReturnType<typeof createEncoder> | null = null;
  #started = false;
  #length = 0;

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
    await this.#busy;
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
    this.#encoder?.close();
  }

  /** The current batch is full: go on with the other one. */
  async #turn(): Promise<void> {
    await this.#busy;
    const full = this.#current;
    this.#current = this.#spare ?? new Batch();
    this.#current.used = 0;
    this.#spare = full;
    this.#busy = this.#process(full, false);
    // Whoever waits for the batch gets its error.
    this.#busy.catch(() => {});
  }

  async #process(batch: Batch, last: boolean): Promise<void> {
    if (!this.#started) await this.#start(batch);
    const stored = this.#encoder === null
      ? this.#target.append(batch.frame(last))
      : this.#compress(this.#encoder, batch, last);
    stored.catch(() => {});
    for (const block of batch.blocks()) this.#hasher.update(block);
    await stored;
  }

  async #start(batch: Batch): Promise<void> {
    this.#started = true;
    if (!isDense(batch.bytes.subarray(0, batch.used))) {
      this.#encoder = createEncoder(this.#announced);
    } else {
      const header = new Uint8Array(HEADER);
      writeHeader(header, this.#announced);
      await this.#target.append(header);
    }
  }

  async #compress(
    encoder: ReturnType<typeof createEncoder>,
    batch: Batch,
    last: boolean,
  ): Promise<void> {
    for (const block of batch.blocks()) {
      for (const bytes of await encoder.write(block)) await this.#target.append(bytes);
    }
    if (last) { for (const bytes of await encoder.end()) await this.#target.append(bytes); }
  }
}
