/** @module The frame of a large blob on its way into a store in one SQLite file. */

import type { IntakeTarget } from "./intake.ts";
import { type BlobRows, CHUNK } from "./sqlite_rows.ts";

/**
 * A frame that is cut into chunks. The first is kept back: the length in its header is known at the end. While a chunk
 * is written, the next one fills.
 */
export class ChunkTarget implements IntakeTarget {
  readonly #rows: BlobRows;
  #first: Uint8Array | null = null;
  #buffer = new Uint8Array(CHUNK);
  #spare: Uint8Array<ArrayBuffer> | null = null;
  /** The chunk before the one that fills, being written. */
  #busy: Promise<void> = Promise.resolve();
  #used = 0;
  #place = 0;
  #whole = false;
  /** Bytes of the frame. */
  stored = 0;

  private constructor(rows: BlobRows, readonly frame: number) {
    this.#rows = rows;
  }

  /** A new frame in `rows`. */
  static async begin(rows: BlobRows): Promise<ChunkTarget> {
    return new ChunkTarget(rows, await rows.db.write((tx) => rows.begin(tx, Date.now())));
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

  /** Write what is left, then make it somebody's by `publish`. */
  async finish(publish: () => Promise<void>): Promise<void> {
    await this.#busy;
    const rest = this.#buffer.subarray(0, this.#used);
    if (this.#first !== null) await this.#write(0, this.#first);
    if (rest.length > 0 || this.#place === 0) await this.#write(this.#place, rest);
    await publish();
    this.#whole = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#whole) return;
    await this.#busy.catch(() => {});
    // What cannot be dropped now is swept later, as after a crash.
    await this.#rows.abandon(this.frame).catch(() => {});
  }
}
