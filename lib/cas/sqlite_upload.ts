/** @module A blob on its way into a store in one SQLite file: hashed and written in one pass, in bounded memory. */

import { createHasher } from "./blake3.ts";
import { cidOfDigest } from "./cid.ts";
import type { Cid, Limits } from "./contract.ts";
import { type FrameTarget, FrameWriter } from "./frame_writer.ts";
import { SMALL } from "./intake.ts";
import { checkAddress } from "./limits.ts";
import { type BlobRows, CHUNK } from "./sqlite_rows.ts";
import { concat } from "./streams.ts";

/**
 * A frame that is cut into chunks. The first is kept back: the length in its header is known at the end. While a chunk
 * is written, the next one fills.
 */
class ChunkTarget implements FrameTarget {
  readonly #rows: BlobRows;
  #first: Uint8Array | null = null;
  #buffer = new Uint8Array(CHUNK);
  #spare: Uint8Array<ArrayBuffer> | null = null;
  /** The chunk before the one that fills, being written. */
  #busy: Promise<void> = Promise.resolve();
  #used = 0;
  #place = 0;
  stored = 0;

  constructor(rows: BlobRows, readonly frame: number) {
    this.#rows = rows;
  }

  async append(bytes: Uint8Array): Promise<void> {
    this.stored += bytes.length;
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + CHUNK - this.#used);
      this.#buffer.set(part, this.#used);
      this.#used += part.length;
      at += part.length;
      if (this.#used === CHUNK) await this.#turn();
    }
  }

  overwrite(bytes: Uint8Array, at: number): Promise<void> {
    (this.#first ?? this.#buffer).set(bytes, at);
    return Promise.resolve();
  }

  async #turn(): Promise<void> {
    await this.#busy;
    const full = this.#buffer;
    this.#buffer = this.#spare ?? new Uint8Array(CHUNK);
    this.#spare = null;
    if (this.#first === null) this.#first = full;
    else {
      this.#spare = full;
      this.#busy = this.#write(this.#place, full);
      // Whoever waits for the chunk gets its error.
      this.#busy.catch(() => {});
    }
    this.#place++;
    this.#used = 0;
  }

  async #write(place: number, bytes: Uint8Array): Promise<void> {
    await this.#rows.db.write((tx) => this.#rows.add(tx, this.frame, place, bytes, Date.now()));
  }

  /** Write what is left. */
  async finish(): Promise<void> {
    await this.#busy;
    const rest = this.#buffer.subarray(0, this.#used);
    if (this.#first !== null) await this.#write(0, this.#first);
    if (rest.length > 0 || this.#place === 0) await this.#write(this.#place, rest);
  }

  /** Wait for what is under way, however it ends. */
  async settle(): Promise<void> {
    await this.#busy.catch(() => {});
  }
}

/** What an upload needs of its store. */
export interface UploadStore {
  readonly rows: BlobRows;
  /** Store a small blob. */
  put(data: Uint8Array, limits: Limits): Promise<Cid>;
  /** Whether the store holds the blob undamaged. */
  intact(cid: Cid): Promise<boolean>;
  /** Make `frame`, of `stored` bytes, that of the blob `cid` of `length` bytes. */
  publish(cid: Cid, frame: number, length: number, stored: number): Promise<void>;
}

/** One upload. Dispose it in every case. */
export class SqliteUpload implements AsyncDisposable {
  readonly #store: UploadStore;
  readonly #limits: Limits;
  #parts: Uint8Array[] = [];
  #length = 0;
  #target: ChunkTarget | null = null;
  #published = false;
  #sink: { write(bytes: Uint8Array): Promise<void> | void; finish(): Promise<Uint8Array> } | null =
    null;
  #close = () => {};

  constructor(store: UploadStore, limits: Limits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** Take the next bytes, which must not change until it returns or resolves. */
  write(bytes: Uint8Array): Promise<void> | void {
    this.#length += bytes.length;
    if (this.#sink !== null) return this.#sink.write(bytes);
    this.#parts.push(bytes.slice());
    if (this.#length > SMALL) return this.#grow();
  }

  /** Store the blob, if it is the one that is expected. */
  async finish(): Promise<Cid> {
    if (this.#sink === null) {
      return await this.#store.put(concat(this.#parts, this.#length), this.#limits);
    }
    const cid = cidOfDigest(await this.#sink.finish());
    checkAddress(cid, this.#limits);
    if (this.#target !== null) {
      await this.#target.finish();
      const { frame, stored } = this.#target;
      await this.#store.publish(cid, frame, this.#length, stored);
      this.#published = true;
    }
    return cid;
  }

  async #grow(): Promise<void> {
    const { expectedCid, expectedLength } = this.#limits;
    if (expectedCid !== undefined && await this.#store.intact(expectedCid)) {
      const hasher = createHasher();
      this.#sink = {
        write: (bytes) => hasher.update(bytes),
        finish: () => Promise.resolve(hasher.digest()),
      };
    } else {
      const { rows } = this.#store;
      const frame = await rows.db.write((tx) => rows.begin(tx, Date.now()));
      this.#target = new ChunkTarget(rows, frame);
      const writer = new FrameWriter(this.#target, expectedLength ?? null);
      this.#sink = writer;
      this.#close = () => writer.close();
    }
    for (const part of this.#parts.splice(0)) await this.#sink.write(part);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close();
    if (this.#target === null || this.#published) return;
    await this.#target.settle();
    // What cannot be dropped now is swept later, as after a crash.
    await this.#store.rows.abandon(this.#target.frame).catch(() => {});
  }
}
