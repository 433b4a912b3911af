/** @module What threads that hash are asked for, and how they do it: see `hash_pool.ts`. */

import { HASH_PIECE, pieceValue } from "./blake3.ts";
import { BLOCK, BLOCK_HEADER, BLOCK_MAX, HEADER, writeBlockHeader } from "./zstd_frame.ts";

const STRIDE = BLOCK_HEADER + BLOCK_MAX;
const VALUE = 32;

/** Bytes of the buffer that a file is copied through: four blocks. */
const COPY = 4 * STRIDE;

/** The buffer of this thread's copies: each is one synchronous call. */
let copied: Uint8Array | undefined;

/** Hash whole pieces of blocks that lie in `bytes` as they do in a file: each behind the gap for its header. */
export interface BatchJob {
  readonly type: "batch";
  readonly bytes: Uint8Array;
  /** How many pieces from the first block on. */
  readonly pieces: number;
  /** The number of the first piece in the blob. */
  readonly first: number;
}

/** Tells whether a file is still the one that was meant. */
export interface SourceMark {
  readonly dev: number;
  readonly ino: number | null;
}

/** Hash a part of a file, and write it to its place in a frame of raw blocks. */
export interface CopyJob {
  readonly type: "copy";
  readonly source: string;
  readonly mark: SourceMark;
  /** The file of the frame. Null: the part is only hashed. */
  readonly target: string | null;
  /** Where the part starts in the source, a multiple of a block, and where it ends, a multiple of a piece. */
  readonly from: number;
  readonly to: number;
  /** Bytes of the whole source. */
  readonly length: number;
}

/** What a thread is asked for. */
export type HashJob = BatchJob | CopyJob;

/** The source of a copy is another file by now, or shorter than it was. */
export class SourceChanged extends Error {
  constructor(path: string) {
    super(`${path} changed while it was read`);
  }
}

/** Do `job` in this thread; the values of its pieces, one behind the other. */
export function work(job: HashJob): Uint8Array<ArrayBuffer> {
  return job.type === "batch" ? hashBatch(job) : copy(job);
}

function hashBatch({ bytes, pieces, first }: BatchJob): Uint8Array<ArrayBuffer> {
  const values = new Uint8Array(pieces * VALUE);
  for (let i = 0; i < pieces; i++) {
    const at = placeOf(i * HASH_PIECE);
    values.set(pieceValue(bytes.subarray(at, at + HASH_PIECE), first + i), i * VALUE);
  }
  return values;
}

/** Where byte `at` of content is behind the header of a frame. */
function placeOf(at: number): number {
  return Math.floor(at / BLOCK_MAX) * STRIDE + BLOCK_HEADER + at % BLOCK_MAX;
}

/** The `used` bytes of content that lie in `bytes` as blocks, each behind a gap, block by block. */
export function blocksOf(bytes: Uint8Array, used: number): Uint8Array[] {
  return Array.from({ length: Math.ceil(used / BLOCK_MAX) }, (_, i) => {
    const from = i * STRIDE + BLOCK_HEADER;
    return bytes.subarray(from, from + Math.min(BLOCK_MAX, used - i * BLOCK_MAX));
  });
}

function copy(job: CopyJob): Uint8Array<ArrayBuffer> {
  const { from, to } = job;
  const values = new Uint8Array((to - from) / HASH_PIECE * VALUE);
  using source = Deno.openSync(job.source);
  const { dev, ino } = source.statSync();
  if (dev !== job.mark.dev || ino !== job.mark.ino) throw new SourceChanged(job.source);
  using target = job.target === null ? null : Deno.openSync(job.target, { write: true });
  source.seekSync(from, Deno.SeekMode.Start);
  target?.seekSync(HEADER + from / BLOCK_MAX * STRIDE, Deno.SeekMode.Start);
  const buffer = copied ??= new Uint8Array(COPY);
  for (let at = from; at < to;) {
    const size = Math.min(COPY / STRIDE * BLOCK_MAX, to - at);
    const used = readBlocks(source, buffer, at, size, job);
    const pieces = size / HASH_PIECE;
    const first = at / HASH_PIECE;
    values.set(
      hashBatch({ type: "batch", bytes: buffer, pieces, first }),
      (at - from) / HASH_PIECE * VALUE,
    );
    if (target !== null) writeAll(target, buffer.subarray(0, used));
    at += size;
  }
  return values;
}

/** Read `size` bytes from place `at` on as blocks into `buffer`, with their headers; bytes of `buffer` that are used. */
function readBlocks(
  source: Deno.FsFile,
  buffer: Uint8Array,
  at: number,
  size: number,
  job: CopyJob,
): number {
  let used = 0;
  for (let read = 0; read < size;) {
    const start = at + read;
    const whole = Math.min(BLOCK_MAX, job.length - start);
    writeBlockHeader(buffer, used, BLOCK.raw, whole, start + whole === job.length);
    const here = Math.min(BLOCK_MAX, size - read);
    readAll(source, buffer.subarray(used + BLOCK_HEADER, used + BLOCK_HEADER + here), job.source);
    used += BLOCK_HEADER + here;
    read += here;
  }
  return used;
}

function readAll(source: Deno.FsFile, target: Uint8Array, path: string): void {
  for (let at = 0; at < target.length;) {
    const count = source.readSync(target.subarray(at));
    if (count === null) throw new SourceChanged(path);
    at += count;
  }
}

function writeAll(target: Deno.FsFile, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += target.writeSync(bytes.subarray(at));
}
