/** @module An object on its way into a bucket: in memory or in a file, whole or in parts, with the hashes of each. */

import { createHash } from "node:crypto";
import type { HttpRequest } from "../net/mod.ts";
import { fileError } from "./files.ts";
import { collect, streamFrom } from "./streams.ts";

/** Bytes of a read. */
const READ = 256 * 1024;

/** The bytes of an object that is to be stored. They do not change. */
export class Frame {
  readonly #hashes = new Map<string, Promise<Uint8Array>>();

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

  /** The hash of bytes `from` up to and without `to`, made once. */
  hash(algorithm: "md5" | "sha256", from = 0, to = this.size): Promise<Uint8Array> {
    const name = `${algorithm} ${from} ${to}`;
    let made = this.#hashes.get(name);
    if (made === undefined) this.#hashes.set(name, made = this.#hash(algorithm, from, to));
    return made;
  }

  async #hash(algorithm: string, from: number, to: number): Promise<Uint8Array> {
    const hash = createHash(algorithm);
    for await (const bytes of this.#read(from, to)) hash.update(bytes);
    return new Uint8Array(hash.digest());
  }

  /** The places at which its parts of `size` bytes start and end; the last may be shorter. */
  parts(size: number): { readonly from: number; readonly to: number }[] {
    const count = Math.max(1, Math.ceil(this.size / size));
    return Array.from({ length: count }, (_, i) => {
      return { from: i * size, to: Math.min(this.size, (i + 1) * size) };
    });
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
