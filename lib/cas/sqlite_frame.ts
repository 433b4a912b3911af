/** @module Reads a blob of a store in one SQLite file, chunk by chunk. */

import { SubletError } from "../home/mod.ts";
import { objectName } from "./cid.ts";
import type { Cid, Limits } from "./contract.ts";
import { decode, decodeSmall } from "./object_decode.ts";
import { rawFrameSize, RawReader } from "./raw_blocks.ts";
import { type BlobRow, type BlobRows, CHUNK } from "./sqlite_rows.ts";
import { slice } from "./streams.ts";
import { blobError, checkWhole, damagedBlob, verified } from "./verify.ts";
import { HEADER_MAX, isAltered } from "./zstd_frame.ts";

/** One blob's frame. */
export class SqliteFrame {
  /** The chunk that was read last, when parts are read. */
  #last: { readonly place: number; readonly bytes: Uint8Array } | null = null;

  constructor(readonly rows: BlobRows, readonly cid: Cid, readonly row: BlobRow) {}

  /** The checked bytes, when the frame is a single chunk, `start`; null when it has to be streamed. */
  small(start: Uint8Array<ArrayBuffer> | null): Uint8Array<ArrayBuffer> | null {
    const { stored, length } = this.row;
    if (stored > CHUNK || length > CHUNK) return null;
    if (start === null) throw damagedBlob(this.cid, "its bytes are gone");
    try {
      const data = decodeSmall(start, CHUNK);
      if (data === null) throw damagedBlob(this.cid, "it has more bytes than it should");
      checkWhole(this.cid, data);
      return data.slice();
    } catch (error) {
      throw blobError(this.cid, error);
    }
  }

  /** All its bytes, checked. */
  async *checked(limits: Limits = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const found = { length: 0 };
    yield* verified(this.cid, decode(() => this.chunks()), limits, (length) => {
      found.length = length;
    });
    if (found.length !== this.row.length) {
      throw damagedBlob(this.cid, `it has ${found.length} bytes, and should have another number`);
    }
  }

  /** Whether bits of its header have changed that make no difference; see `isAltered`. It decodes. */
  async isAltered(): Promise<boolean> {
    return isAltered(await this.rows.start(this.row.frame, HEADER_MAX));
  }

  /** Bytes `from` up to and without `to`, of a blob that was checked. */
  async *part(from: number, to: number): AsyncGenerator<Uint8Array, void, undefined> {
    const { length, stored } = this.row;
    const isRaw = length > 0 && stored === rawFrameSize(length);
    let at = from;
    try {
      if (isRaw) {
        const raw = new RawReader((target, place) => this.#readAt(target, place), length, from, to);
        for (let bytes = await raw.next(); bytes !== null; bytes = await raw.next()) yield bytes;
        at = raw.at;
      }
      if (at < to) yield* slice(decode(() => this.chunks()), at, to);
    } catch (error) {
      throw blobError(this.cid, error);
    }
  }

  /** The bytes of the frame itself. */
  async *chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let place = 0; place * CHUNK < this.row.stored; place++) yield await this.#chunk(place);
    // What follows belongs to no frame, and is seen by whoever decodes it.
    const more = await this.rows.chunk(this.row.frame, Math.ceil(this.row.stored / CHUNK));
    if (more !== null) yield more;
  }

  async #chunk(place: number): Promise<Uint8Array> {
    const bytes = await this.rows.chunk(this.row.frame, place);
    if (bytes !== null) return bytes;
    const now = await this.rows.find(objectName(this.cid));
    if (now?.frame === this.row.frame) throw damagedBlob(this.cid, "some of its bytes are gone");
    throw new SubletError(
      "unavailable",
      `blob ${this.cid} went away while it was read, or was stored anew. Read it again`,
    );
  }

  async #readAt(target: Uint8Array, at: number): Promise<number> {
    let count = 0;
    while (count < target.length && at + count < this.row.stored) {
      const place = Math.floor((at + count) / CHUNK);
      // A chunk is more than one read takes.
      if (this.#last?.place !== place) this.#last = { place, bytes: await this.#chunk(place) };
      const bytes = this.#last.bytes.subarray(at + count - place * CHUNK);
      const part = bytes.subarray(0, target.length - count);
      if (part.length === 0) break;
      target.set(part, count);
      count += part.length;
    }
    return count;
  }
}
