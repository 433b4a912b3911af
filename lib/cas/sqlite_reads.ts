/** @module Reading from a store in one SQLite file: whole, in parts, as frames, and whether it is undamaged. */

import { isError } from "../home/mod.ts";
import { objectName } from "./cid.ts";
import type { BlobBody, Cid, Integrity, Limits } from "./contract.ts";
import { isEmpty, noBytes } from "./empty.ts";
import { writeBeside } from "./files.ts";
import { checkCancelled, checkLength } from "./limits.ts";
import type { Frame } from "./serving.ts";
import { named } from "./sqlite_errors.ts";
import { SqliteFrame } from "./sqlite_frame.ts";
import { SqliteNames } from "./sqlite_names.ts";
import { BytesBody, collect, drain, placesIn, streamFrom } from "./streams.ts";

/** How long a check counts, in milliseconds: disks may rot without a trace. */
const CHECK_LIFETIME = 10 * 60 * 1000;

/** The most checks that are remembered. */
const CHECKS = 4096;

/** A frame that is not smaller than this share of its blob saves nothing. */
const WORTH = 0.9;

/** The blobs of a file, for those who read them. */
export class SqliteReads extends SqliteNames {
  /** Frames that were found whole, by number, as of a state of the file. */
  readonly #checked = new Map<number, { readonly version: number; readonly until: number }>();

  protected async open(cid: Cid): Promise<SqliteFrame | null> {
    const row = await this.rows.find(objectName(cid));
    return row === null ? null : new SqliteFrame(this.rows, cid, row);
  }

  /** The checked bytes of a small blob, the frame of a large one, or null when there is none. */
  async #load(cid: Cid): Promise<Uint8Array<ArrayBuffer> | SqliteFrame | null> {
    if (isEmpty(cid)) return noBytes();
    return await named(cid, async () => {
      const found = await this.rows.findWithStart(objectName(cid));
      if (found === null) return null;
      const frame = new SqliteFrame(this.rows, cid, found.row);
      return frame.small(found.start) ?? frame;
    });
  }

  async get(cid: Cid): Promise<Uint8Array | null> {
    const body = await this.getStream(cid);
    return body === null ? null : body.bytes ?? await collect(body.stream);
  }

  async getStream(cid: Cid, limits: Limits = {}): Promise<BlobBody | null> {
    checkCancelled(limits);
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof SqliteFrame)) {
      checkLength(found.length, limits, cid);
      return new BytesBody(found);
    }
    checkLength(found.row.length, limits, cid);
    return this.#body(found, found.checked(limits));
  }

  async getRange(cid: Cid, from: number, to?: number): Promise<BlobBody | null> {
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof SqliteFrame)) return new BytesBody(found.slice(from, to), found.length);
    using _use = this.use.hold(cid);
    await named(cid, () => this.check(found));
    const { length } = found.row;
    return this.#body(found, found.part(...placesIn(length, from, to)));
  }

  async getFrame(cid: Cid): Promise<Frame | null> {
    using _use = this.use.hold(cid);
    const frame = await named(cid, () => this.open(cid));
    if (frame === null) return null;
    const { stored, length } = frame.row;
    if (stored >= length * WORTH) return null;
    await this.check(frame);
    return { length: stored, blob: length, stream: this.#body(frame, frame.chunks()).stream };
  }

  /** `bytes` of the blob, which is not released while they are read. */
  #body(frame: SqliteFrame, bytes: AsyncGenerator<Uint8Array>): BlobBody {
    const body = { length: frame.row.length, stream: streamFrom(bytes) };
    return this.use.holdBody(frame.cid, body);
  }

  /** Read and hash all of a frame, unless it was lately. Throws `integrity` when it is damaged. */
  protected async check(frame: SqliteFrame): Promise<void> {
    const version = this.rows.db.dataVersion();
    const known = this.#checked.get(frame.row.frame);
    if (known !== undefined && known.version === version && Date.now() < known.until) return;
    await named(frame.cid, () => drain(streamFrom(frame.checked()), {}, () => {}));
    this.#checked.delete(frame.row.frame);
    this.#checked.set(frame.row.frame, { version, until: Date.now() + CHECK_LIFETIME });
    for (const oldest of this.#checked.keys()) {
      if (this.#checked.size <= CHECKS) break;
      this.#checked.delete(oldest);
    }
  }

  async sizeOf(cid: Cid, options: { readonly check?: boolean } = {}): Promise<number | null> {
    if (isEmpty(cid)) return 0;
    const length = await this.#sizeOf(cid, options);
    return length === null || await named(cid, () => this.keep([cid])) > 0 ? null : length;
  }

  async #sizeOf(cid: Cid, options: { readonly check?: boolean }): Promise<number | null> {
    const frame = await named(cid, () => this.open(cid));
    if (frame === null) return null;
    try {
      if (options.check) await this.check(frame);
      return frame.row.length;
    } catch (error) {
      if (isError(error, "integrity")) return null;
      throw error;
    }
  }

  async getFile(cid: Cid, path: string): Promise<number | null> {
    const body = await this.getStream(cid);
    return body === null ? null : await writeBeside(path, body.stream);
  }

  async integrity(cid: Cid): Promise<Integrity> {
    try {
      const frame = await named(cid, () => this.open(cid));
      if (frame === null) return isEmpty(cid) ? "ok" : "missing";
      await named(cid, () => drain(streamFrom(frame.checked()), {}, () => {}));
      return await frame.isAltered() ? "altered" : "ok";
    } catch (error) {
      if (isError(error, "integrity")) return "corrupt";
      throw error;
    }
  }
}
