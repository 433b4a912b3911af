/** @module Writes one part of a blob to its place in the file: see `part_file.ts`. */

import { fileError } from "./files.ts";
import { hashesAside, hashPool, startHashPool } from "./hash_pool.ts";
import type { PartFile } from "./part_file.ts";
import { BLOCK_HEADER, BLOCK_MAX } from "./zstd_frame.ts";

/** Blocks of a batch: a MiB, or an eighth when many parts are on their way, so that they need little memory. */
const BLOCKS = 8;
const MANY = 8;
const BLOCKS_OF_MANY = 1;

/** Parts on their way. */
let writers = 0;

/** A blob of this size is worth threads that hash. */
const THREADS_FROM = 32 * 1024 * 1024;

const STRIDE = BLOCK_HEADER + BLOCK_MAX;

/** Blocks of content, each behind a gap, as they are in the file. */
class Batch {
  /** In a thread, for a while, and not here. */
  bytes: Uint8Array<ArrayBuffer>;
  /** Bytes of content. */
  used = 0;

  constructor(readonly blocks: number, public first: number) {
    this.bytes = new Uint8Array(blocks * STRIDE);
  }

  /** How many of `source` found room. */
  fill(source: Uint8Array): number {
    let at = 0;
    while (at < source.length && this.used < this.blocks * BLOCK_MAX) {
      const inBlock = this.used % BLOCK_MAX;
      const take = Math.min(source.length - at, BLOCK_MAX - inBlock);
      const from = Math.floor(this.used / BLOCK_MAX) * STRIDE + BLOCK_HEADER + inBlock;
      this.bytes.set(source.subarray(at, at + take), from);
      this.used += take;
      at += take;
    }
    return at;
  }
}

/** One part on its way, from the start of a block on. While a batch is hashed and written, the next one fills. */
export class PartWriter implements AsyncDisposable {
  readonly #target: PartFile;
  readonly #file: Deno.FsFile;
  readonly #blocks: number;
  #current: Batch;
  #spare: Batch | null = null;
  #busy: Promise<void> = Promise.resolve();

  private constructor(target: PartFile, file: Deno.FsFile, first: number) {
    this.#target = target;
    this.#file = file;
    this.#blocks = ++writers > MANY ? BLOCKS_OF_MANY : BLOCKS;
    this.#current = new Batch(this.#blocks, first);
  }

  /** A writer from block `first` on. */
  static async open(target: PartFile, first: number): Promise<PartWriter> {
    if (hashesAside() && target.length >= THREADS_FROM) startHashPool().catch(() => {});
    try {
      return new PartWriter(target, await Deno.open(target.path, { write: true }), first);
    } catch (error) {
      throw fileError(error, `cannot write ${target.path}`, "unavailable");
    }
  }

  /** Take the next bytes; they are copied before it resolves. */
  async write(bytes: Uint8Array): Promise<void> {
    let at = this.#current.fill(bytes);
    while (at < bytes.length) {
      await this.#turn();
      at += this.#current.fill(bytes.subarray(at));
    }
  }

  /** Write what is left. A block that is not whole is dropped: it is to be sent again. */
  async finish(): Promise<void> {
    await this.#busy;
    await this.#store(this.#current);
  }

  async #turn(): Promise<void> {
    await this.#busy;
    const full = this.#current;
    const next = this.#spare ?? new Batch(this.#blocks, 0);
    next.first = full.first + this.#blocks;
    next.used = 0;
    this.#current = next;
    this.#spare = full;
    this.#busy = this.#store(full);
    // Whoever waits for the batch gets its error.
    this.#busy.catch(() => {});
  }

  /** Write those blocks of `batch` that are whole, and not there yet. */
  async #store(batch: Batch): Promise<void> {
    const target = this.#target;
    const isNew = (i: number) => {
      const block = batch.first + i;
      return block < target.blocks && !target.has(block) &&
        batch.used >= i * BLOCK_MAX + target.sizeOf(block);
    };
    for (let i = 0; i < this.#blocks; i++) {
      if (!isNew(i)) continue;
      let end = i + 1;
      while (end < this.#blocks && isNew(end)) end++;
      await this.#storeRun(batch, i, end);
      i = end;
    }
  }

  async #storeRun(batch: Batch, from: number, to: number): Promise<void> {
    const target = this.#target;
    const first = batch.first + from;
    const size = target.sizeOf(batch.first + to - 1);
    const start = from * STRIDE + BLOCK_HEADER;
    const bytes = batch.bytes.subarray(start, (to - 1) * STRIDE + BLOCK_HEADER + size);
    const written = this.#writeAt(bytes, target.place(first) + BLOCK_HEADER);
    written.catch(() => {});
    // It may go to a thread to be hashed, and then nobody can write it from here.
    if (hashPool() !== null) await written;
    if (from === 0) batch.bytes = await target.hash(first, to, batch.bytes);
    else await target.hash(first, to - from, batch.bytes.subarray(from * STRIDE));
    await written;
    for (let block = first; block < batch.first + to; block++) {
      this.#writeHeader(block);
      target.add(block);
    }
  }

  async #writeAt(bytes: Uint8Array, place: number): Promise<void> {
    try {
      this.#file.seekSync(place, Deno.SeekMode.Start);
      for (let at = 0; at < bytes.length;) at += await this.#file.write(bytes.subarray(at));
    } catch (error) {
      throw fileError(error, `cannot write ${this.#target.path}`, "unavailable");
    }
  }

  #writeHeader(block: number): void {
    try {
      this.#file.seekSync(this.#target.place(block), Deno.SeekMode.Start);
      this.#file.writeSync(this.#target.header(block));
    } catch (error) {
      throw fileError(error, `cannot write ${this.#target.path}`, "unavailable");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#busy.catch(() => {});
    writers--;
    this.#file.close();
  }
}
