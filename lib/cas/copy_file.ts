/**
 * @module Stores a large file whose bytes do not compress: the threads of the pool read parts of it, hash them and write
 * them to their places, each part on its own.
 */

import { SubletError } from "../home/mod.ts";
import { createHasher, HASH_PIECE } from "./blake3.ts";
import { fileError } from "./files.ts";
import { type CopyJob, SourceChanged, work } from "./hash_jobs.ts";
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

/** Files from this size on are worth the start of threads. */
export const COPY_FROM = 32 * 1024 * 1024;

/** Bytes of a part: many blocks, so that asking for it costs nothing beside. */
const PART = 4 * 1024 * 1024;

const VALUE = 32;

/** Bytes of each sample that tells whether a file compresses. */
const SAMPLE = 4096;

/** Where the frame goes. */
export interface CopyTarget {
  readonly path: string;
  /** Write `bytes` at `at`. */
  writeAt(bytes: Uint8Array, at: number): void;
  /** So many bytes were written by somebody else. */
  wrote(bytes: number): void;
}

function isLarge(info: Deno.FileInfo): boolean {
  return info.isFile && info.size >= COPY_FROM;
}

/** A file that is read in parts. */
export class CopySource implements Disposable {
  private constructor(
    readonly path: string,
    readonly file: Deno.FsFile,
    readonly info: Deno.FileInfo,
  ) {}

  /**
   * The file at `path`, if it is one for which threads are worth their start, else null: anything but a file is not even
   * opened, since a pipe is read once. `not_found` when there is none, `unavailable` when it cannot be read.
   */
  static async open(path: string): Promise<CopySource | null> {
    let file: Deno.FsFile | null = null;
    try {
      if (!isLarge(await Deno.stat(path))) return null;
      file = await Deno.open(path);
      const info = await file.stat();
      if (isLarge(info)) return new CopySource(path, file, info);
      file.close();
      return null;
    } catch (error) {
      file?.close();
      throw fileError(error, `cannot read ${path}`, "not_found");
    }
  }

  /** Whether it looks as if it would not compress. */
  get isDense(): boolean {
    const samples = new Uint8Array(4 * SAMPLE);
    for (let i = 0; i < 4; i++) {
      const at = Math.floor((this.info.size - SAMPLE) * i / 3);
      this.#read(samples.subarray(i * SAMPLE, (i + 1) * SAMPLE), at);
    }
    return isDense(samples);
  }

  #read(target: Uint8Array, at: number): void {
    this.file.seekSync(at, Deno.SeekMode.Start);
    for (let done = 0; done < target.length;) {
      const count = this.file.readSync(target.subarray(done));
      if (count === null) throw new SourceChanged(this.path);
      done += count;
    }
  }

  /** Hash it, and write its frame to `target` unless that is null; its digest. `conflict` when it changes meanwhile. */
  async copy(target: CopyTarget | null): Promise<Uint8Array<ArrayBuffer>> {
    try {
      return await this.#copy(target);
    } catch (error) {
      if (error instanceof SourceChanged) {
        throw new SubletError("conflict", `${error.message}. Try again`);
      }
      throw fileError(error, `cannot store ${this.path}`, "unavailable");
    }
  }

  async #copy(target: CopyTarget | null): Promise<Uint8Array<ArrayBuffer>> {
    const { size } = this.info;
    const header = new Uint8Array(HEADER);
    writeHeader(header, size);
    target?.writeAt(header, 0);
    // The last piece, whole or not, is hashed in another way than the rest.
    const tail = Math.floor((size - 1) / HASH_PIECE) * HASH_PIECE;
    const hasher = createHasher();
    await new Parts(tail, (from, to) => this.#job(target, from, to), (values) => {
      hasher.take(values);
      target?.wrote(values.length / VALUE * HASH_PIECE);
    }).run();
    hasher.update(this.#last(target, tail));
    this.#check();
    return hasher.digest();
  }

  /** Read the last piece, and write it; its bytes. */
  #last(target: CopyTarget | null, from: number): Uint8Array {
    const { size } = this.info;
    const bytes = new Uint8Array(size - from);
    this.#read(bytes, from);
    const block = Math.floor(from / BLOCK_MAX);
    const place = HEADER + block * (BLOCK_HEADER + BLOCK_MAX);
    if (from % BLOCK_MAX === 0) {
      const header = new Uint8Array(BLOCK_HEADER);
      writeBlockHeader(header, 0, BLOCK.raw, bytes.length, true);
      target?.writeAt(header, place);
    }
    target?.writeAt(bytes, place + BLOCK_HEADER + from % BLOCK_MAX);
    return bytes;
  }

  /** What was hashed is what was written, but half of it may be older than the other half. */
  #check(): void {
    const { size, mtime } = this.file.statSync();
    if (size !== this.info.size || mtime?.getTime() !== this.info.mtime?.getTime()) {
      throw new SourceChanged(this.path);
    }
  }

  #job(target: CopyTarget | null, from: number, to: number): CopyJob {
    const { dev, ino, size } = this.info;
    const mark = { dev, ino };
    return {
      type: "copy",
      source: this.path,
      mark,
      target: target?.path ?? null,
      from,
      to,
      length: size,
    };
  }
  [Symbol.dispose](): void {
    this.file.close();
  }
}

/** The parts of a file, each asked of whoever is free. */
class Parts {
  readonly #end: number;
  readonly #job: (from: number, to: number) => CopyJob;
  readonly #take: (values: Uint8Array) => void;
  readonly #count: number;
  readonly #done = new Map<number, Uint8Array>();
  #next = 0;
  #taken = 0;

  /** All parts up to `end`. `take` gets the values of each, in their order. */
  constructor(
    end: number,
    job: (from: number, to: number) => CopyJob,
    take: (values: Uint8Array) => void,
  ) {
    this.#end = end;
    this.#job = job;
    this.#take = take;
    this.#count = Math.ceil(end / PART);
  }

  async run(): Promise<void> {
    await Promise.all([this.#here(), this.#inThreads()]);
  }

  /** This thread works until the others are up. */
  async #here(): Promise<void> {
    while (hashPool() === null && this.#next < this.#count) {
      await this.#one(work);
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  async #inThreads(): Promise<void> {
    const pool = await startHashPool();
    if (pool === null) return;
    // Each thread has its next part at hand when it is done with one.
    const lanes = Array.from({ length: 2 * pool.width }, async () => {
      while (this.#next < this.#count) await this.#one((job) => pool.run(job));
    });
    await Promise.all(lanes);
  }

  async #one(run: (job: CopyJob) => Promise<Uint8Array> | Uint8Array): Promise<void> {
    const index = this.#next++;
    const from = index * PART;
    try {
      this.#done.set(index, await run(this.#job(from, Math.min(from + PART, this.#end))));
    } catch (error) {
      this.#next = this.#count;
      throw error;
    }
    while (true) {
      const values = this.#done.get(this.#taken);
      if (values === undefined) return;
      this.#done.delete(this.#taken++);
      this.#take(values);
    }
  }
}
