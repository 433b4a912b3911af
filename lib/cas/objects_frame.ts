/** @module An object on its way into a bucket: in memory or in a file, whole or in parts, with the hashes of each. */

import { createHash } from "node:crypto";
import type { HttpRequest } from "../net/mod.ts";
import { fileError } from "./files.ts";
import { collect, streamFrom } from "./streams.ts";

/** Bytes of a read. */
const READ = 256 * 1024;

/** Hashes of a part. */
export interface PartDigest {
  readonly md5: Uint8Array;
  /** Lower-case hex. */
  readonly sha256: string;
}

/** The bytes of an object that is to be stored. They do not change. */
export class Frame {
  readonly #digests = new Map<number, Promise<PartDigest[]>>();

  private constructor(
    readonly size: number,
    /** All of it, when it is in memory. */
    readonly bytes: Uint8Array | null,
    readonly path: string,
  ) {}

  static of(bytes: Uint8Array): Frame {
    return new Frame(bytes.length, bytes, "");
  }

  /** The file at `path`. */
  static async ofFile(path: string): Promise<Frame> {
    try {
      return new Frame((await Deno.stat(path)).size, null, path);
    } catch (error) {
      throw fileError(error, `cannot read ${path}`, "unavailable");
    }
  }

  /** Bytes `from` up to and without `to`, as the body of a request. */
  body(from = 0, to = this.size): NonNullable<HttpRequest["body"]> {
    if (this.bytes !== null) return this.bytes.subarray(from, to);
    return { stream: streamFrom(this.#read(from, to)), length: to - from };
  }

  /** All of it, which must be little. */
  async whole(): Promise<Uint8Array> {
    return this.bytes ?? await collect(streamFrom(this.#read(0, this.size)));
  }

  /** Hashes of each part of `partSize` bytes; the last part may be shorter. */
  digests(partSize: number): Promise<PartDigest[]> {
    const known = this.#digests.get(partSize);
    if (known !== undefined) return known;
    const made = this.#hash(partSize);
    this.#digests.set(partSize, made);
    return made;
  }

  /** Hashes of all of it. */
  async digest(): Promise<PartDigest> {
    const [whole] = await this.digests(Math.max(1, this.size));
    if (whole === undefined) throw new TypeError("a frame has at least one part");
    return whole;
  }

  async #hash(partSize: number): Promise<PartDigest[]> {
    const digests: PartDigest[] = [];
    for (let from = 0; from === 0 || from < this.size; from += partSize) {
      const md5 = createHash("md5");
      const sha256 = createHash("sha256");
      for await (const bytes of this.#read(from, Math.min(this.size, from + partSize))) {
        md5.update(bytes);
        sha256.update(bytes);
      }
      digests.push({ md5: new Uint8Array(md5.digest()), sha256: sha256.digest("hex") });
    }
    return digests;
  }

  async *#read(from: number, to: number): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.bytes !== null) return yield this.bytes.subarray(from, to);
    try {
      using file = await Deno.open(this.path);
      await file.seek(from, Deno.SeekMode.Start);
      for (let at = from; at < to;) {
        const piece = new Uint8Array(Math.min(READ, to - at));
        const count = await file.read(piece);
        if (count === null) throw new Error("it is shorter than it was");
        at += count;
        yield piece.subarray(0, count);
      }
    } catch (error) {
      throw fileError(error, `cannot read ${this.path}`, "unavailable");
    }
  }
}
