/**
 * @module The file of a blob that arrives in parts: from the start the frame of raw blocks that it may be stored as, in
 * which parts are written to their places. The header of a block is written after its content, so the file itself says
 * which blocks are whole, after a crash too.
 */

import { SubletError } from "../home/mod.ts";
import { HASH_PIECE, joinPieces, pieceValue } from "./blake3.ts";
import { fileError } from "./files.ts";
import { work } from "./hash_jobs.ts";
import { hashPool } from "./hash_pool.ts";
import { rawFrameSize } from "./raw_blocks.ts";
import {
  BLOCK,
  BLOCK_HEADER,
  BLOCK_MAX,
  HEADER,
  writeBlockHeader,
  writeHeader,
} from "./zstd_frame.ts";

/** Parts start at multiples of this many bytes. */
export const PART = BLOCK_MAX;

const STRIDE = BLOCK_HEADER + BLOCK_MAX;
const PIECES = BLOCK_MAX / HASH_PIECE;
const VALUE = 32;

/** Of larger blobs the values of pieces are not kept while parts arrive: all is hashed at the end. */
const MAX_VALUES = 32 * 1024 * 1024;

/** After so many bytes the disk is made to write them. */
const SYNC_EVERY = 16 * 1024 * 1024;

/** What is known of a block. */
const MISSING = 0;
const WHOLE = 1;
const HASHED = 2;

/** The file, and which of its blocks are whole. */
export class PartFile {
  /** How many blocks it has. */
  readonly blocks: number;
  readonly #state: Uint8Array;
  readonly #values: Uint8Array | null;
  #left: number;
  #unsynced = 0;
  #syncing: Promise<void> | null = null;

  private constructor(readonly path: string, readonly length: number) {
    this.blocks = this.#left = Math.ceil(length / BLOCK_MAX);
    this.#state = new Uint8Array(this.blocks);
    const bytes = this.blocks * PIECES * VALUE;
    this.#values = bytes > MAX_VALUES ? null : new Uint8Array(bytes);
  }

  /** A new file at `path` for a blob of `length` bytes, one or more. */
  static create(path: string, length: number): PartFile {
    try {
      using file = Deno.openSync(path, { write: true, createNew: true, mode: 0o644 });
      file.writeSync(frameHeader(length));
      file.truncateSync(rawFrameSize(length));
    } catch (error) {
      throw fileError(error, `cannot write ${path}`, "unavailable");
    }
    return new PartFile(path, length);
  }

  /** The file at `path` as an earlier process left it, or null when it is no such file. */
  static async recover(path: string, length: number): Promise<PartFile | null> {
    const found = new PartFile(path, length);
    try {
      using file = await Deno.open(path, { read: true, write: true });
      if ((await file.stat()).size !== rawFrameSize(length)) return null;
      // Nothing of the frame but this is neither hashed nor looked at below.
      file.writeSync(frameHeader(length));
      const header = new Uint8Array(BLOCK_HEADER);
      for (let block = 0; block < found.blocks; block++) {
        file.seekSync(HEADER + block * STRIDE, Deno.SeekMode.Start);
        file.readSync(header);
        const expected = found.header(block);
        if (expected.every((byte, i) => header[i] === byte)) found.#mark(block, WHOLE);
        // Many blocks take a while, and others wait.
        if (block % 1024 === 1023) await new Promise((resolve) => setTimeout(resolve));
      }
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      throw fileError(error, `cannot read ${path}`, "unavailable");
    }
    return found;
  }

  /** Bytes that are missing, or a few more. */
  get left(): number {
    return Math.min(this.length, this.#left * BLOCK_MAX);
  }

  /** Whether nothing is missing. */
  get complete(): boolean {
    return this.#left === 0;
  }

  /** Whether block `block` is there. */
  has(block: number): boolean {
    return this.#state[block] !== MISSING;
  }

  /** Bytes of block `block`. */
  sizeOf(block: number): number {
    return Math.min(BLOCK_MAX, this.length - block * BLOCK_MAX);
  }

  /** The header of block `block`. */
  header(block: number): Uint8Array {
    const header = new Uint8Array(BLOCK_HEADER);
    writeBlockHeader(header, 0, BLOCK.raw, this.sizeOf(block), block === this.blocks - 1);
    return header;
  }

  /** Where in the file the header of block `block` is; its content follows. */
  place(block: number): number {
    return HEADER + block * STRIDE;
  }

  /** The first `count` gaps, as pairs of where each starts and ends. */
  missing(count: number): [from: number, to: number][] {
    const gaps: [number, number][] = [];
    for (let block = 0; block < this.blocks && gaps.length < count;) {
      const from = this.#state.indexOf(MISSING, block);
      if (from < 0) break;
      block = from;
      while (block < this.blocks && !this.has(block)) block++;
      gaps.push([from * BLOCK_MAX, Math.min(this.length, block * BLOCK_MAX)]);
    }
    return gaps;
  }

  /**
   * Hash `count` blocks from `first` on, which lie in `bytes` as in the file, each behind the gap for its header; the same
   * bytes, in memory that may have been in a thread meanwhile.
   */
  async hash(
    first: number,
    count: number,
    bytes: Uint8Array<ArrayBuffer>,
  ): Promise<Uint8Array<ArrayBuffer>> {
    if (this.#values === null) return bytes;
    const from = first * PIECES;
    // The last piece is hashed with the whole: see `joinPieces`.
    const pieces = Math.min(count * PIECES, Math.ceil(this.length / HASH_PIECE) - 1 - from);
    if (pieces <= 0) return bytes;
    const pool = bytes.byteOffset === 0 ? hashPool() : null;
    if (pool === null) {
      this.#values.set(work({ type: "batch", bytes, pieces, first: from }), from * VALUE);
      return bytes;
    }
    const { bytes: values, batch } = await pool.hash(bytes.buffer, pieces, from);
    this.#values.set(values, from * VALUE);
    return new Uint8Array(batch);
  }

  /** Block `block` is in the file with its header, and hashed. */
  add(block: number): void {
    this.#mark(block, this.#values === null ? WHOLE : HASHED);
    this.#unsynced += this.sizeOf(block);
    if (this.#unsynced < SYNC_EVERY || this.#syncing !== null) return;
    this.#unsynced = 0;
    this.#syncing = this.#syncAhead();
  }

  #mark(block: number, state: number): void {
    if (!this.has(block)) this.#left--;
    this.#state[block] = state;
  }

  /** Get what was written so far to the disk while more comes, so that there is less to wait for at the end. */
  async #syncAhead(): Promise<void> {
    try {
      using file = await Deno.open(this.path);
      await file.syncData();
    } catch {
      // It was only an attempt: the sync at the end tells.
    }
    this.#syncing = null;
  }

  /** The digest of the blob, once it is complete. What an earlier process received is read and hashed. */
  async digest(): Promise<Uint8Array<ArrayBuffer>> {
    const pieces = Math.ceil(this.length / HASH_PIECE);
    const values = this.#values ?? new Uint8Array((pieces - 1) * VALUE);
    using file = await Deno.open(this.path);
    let last: Uint8Array = new Uint8Array(0);
    for (let block = 0; block < this.blocks; block++) {
      const end = block === this.blocks - 1;
      if (this.#state[block] === HASHED && !end) continue;
      const bytes = await this.#read(file, block);
      for (let i = 0; i * HASH_PIECE < bytes.length; i++) {
        const index = block * PIECES + i;
        const piece = bytes.subarray(i * HASH_PIECE, (i + 1) * HASH_PIECE);
        if (index === pieces - 1) last = piece;
        else values.set(pieceValue(piece, index), index * VALUE);
      }
    }
    return joinPieces(values.subarray(0, (pieces - 1) * VALUE), last);
  }

  async #read(file: Deno.FsFile, block: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(this.sizeOf(block));
    file.seekSync(this.place(block) + BLOCK_HEADER, Deno.SeekMode.Start);
    for (let at = 0; at < bytes.length;) {
      const count = await file.read(bytes.subarray(at));
      if (count === null) {
        throw new SubletError("conflict", `${this.path} was cut short: begin again`);
      }
      at += count;
    }
    return bytes;
  }

  /** Samples of the content, to tell how well it compresses. */
  async samples(): Promise<Uint8Array> {
    using file = await Deno.open(this.path);
    const parts = [0, 1, 2, 3].map((i) => Math.floor((this.blocks - 1) * i / 3));
    const all: number[] = [];
    for (const block of parts) all.push(...(await this.#read(file, block)).subarray(0, 4096));
    return Uint8Array.from(all);
  }

  /** Wait for what it does by itself. */
  async settle(): Promise<void> {
    await this.#syncing;
  }
}

function frameHeader(length: number): Uint8Array {
  const header = new Uint8Array(HEADER);
  writeHeader(header, length);
  return header;
}
