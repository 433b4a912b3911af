/** @module One object of a store on disk, open for reading. */

import { isError } from "../home/mod.ts";
import { blobError, damagedBlob, verified } from "./verify.ts";
import type { Cid, Limits } from "./contract.ts";
import { objectName } from "./cid.ts";
import type { CheckedObjects } from "./checked_objects.ts";
import { objectError } from "./files.ts";
import { decode } from "./object_decode.ts";
import { rawFrameSize, RawReader } from "./raw_blocks.ts";
import { slice, streamFrom, streamOfNext } from "./streams.ts";
import { HEADER_MAX, isAltered, parseHeader } from "./zstd_frame.ts";

/** Bytes of a read. */
const READ = 64 * 1024;

/** An object's file. It is closed when a stream of it ends, or when it is disposed. */
export class StoredObject implements Disposable {
  #open = true;
  /** Whether the disk failed, which may pass. */
  #failed = false;

  private constructor(
    readonly cid: Cid,
    readonly info: Deno.FileInfo,
    readonly file: Deno.FsFile,
    readonly checked: CheckedObjects,
    /** Unix ms at which `info` was read. */
    readonly since: number,
  ) {}

  /** The object at `path`, or null when there is none. */
  static async open(
    cid: Cid,
    path: string,
    checked: CheckedObjects,
  ): Promise<StoredObject | null> {
    let file: Deno.FsFile | null = null;
    try {
      file = await Deno.open(path);
      const since = Date.now();
      return new StoredObject(cid, await file.stat(), file, checked, since);
    } catch (error) {
      file?.close();
      if (error instanceof Deno.errors.NotFound) return null;
      throw blobError(cid, objectError(error, "its object cannot be read"));
    }
  }

  /** What `work` makes of it. When that fails it is closed. */
  async use<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this[Symbol.dispose]();
      throw blobError(this.cid, error);
    }
  }

  /** What is known of it without reading it. Throws `integrity` when it is known to be damaged. */
  known(): number | null {
    const found = this.checked.find(objectName(this.cid), this.info);
    if (found !== null && found.length === null) {
      throw damagedBlob(this.cid, "it was when it was last read, and has not changed since");
    }
    return found?.length ?? null;
  }

  /** The length of the blob: as its header announces it, or else by reading it all. */
  async length(): Promise<number> {
    return this.known() ?? await this.#announced() ?? await this.check();
  }

  async #announced(): Promise<number | null> {
    return parseHeader(await this.#start())?.contentSize ?? null;
  }

  /** Whether bits of its header have changed that make no difference; see `isAltered`. It decodes. */
  async isAltered(): Promise<boolean> {
    return isAltered(await this.#start());
  }

  async #start(): Promise<Uint8Array> {
    const start = new Uint8Array(HEADER_MAX);
    const count = await this.#readAt(start, 0);
    return start.subarray(0, count);
  }

  /** Its bytes, checked unless they were lately. It is closed when they end. */
  stream(limits: Limits = {}): ReadableStream<Uint8Array> {
    const known = this.known();
    if (known !== null) return this.part(known, 0, known, limits);
    return this.#streamFrom(this.#checkedBytes(limits), limits);
  }

  /** Its frame as it is. It is closed when that ends. */
  frame(): ReadableStream<Uint8Array> {
    return this.#streamFrom(this.#chunks(), {});
  }

  /**
   * Bytes `from` up to and without `to` of its `length`, which {@linkcode StoredObject.check} has told. It is closed
   * when they end.
   */
  part(length: number, from: number, to: number, limits: Limits = {}): ReadableStream<Uint8Array> {
    const raw = this.#raw(length, from, to);
    if (raw === null) return this.#streamFrom(this.#rest(from, to), limits);
    // This is the hot path: no generators, unless the object proves to be another's.
    let rest: AsyncGenerator<Uint8Array> | null = null;
    const next = async () => {
      const bytes = rest === null ? await raw.next() : null;
      if (bytes !== null) return bytes;
      if (raw.at < to) rest ??= this.#rest(raw.at, to);
      const value = (await rest?.next())?.value ?? null;
      if (value === null) this[Symbol.dispose]();
      return value;
    };
    return streamOfNext(next, { close: () => this[Symbol.dispose](), transient: limits.transient });
  }

  #streamFrom(bytes: AsyncGenerator<Uint8Array>, limits: Limits): ReadableStream<Uint8Array> {
    const close = () => this[Symbol.dispose]();
    return streamFrom(this.#closing(bytes), { close, transient: limits.transient });
  }

  #rest(from: number, to: number): AsyncGenerator<Uint8Array> {
    return slice(decode(() => this.#chunks()), from, to);
  }

  #raw(length: number, from: number, to: number): RawReader | null {
    if (length === 0 || this.info.size !== rawFrameSize(length)) return null;
    return new RawReader((target, at) => this.#readAt(target, at), length, from, to);
  }

  async *#closing(bytes: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* bytes;
    } finally {
      this[Symbol.dispose]();
    }
  }

  /** All its bytes, unchecked. */
  async *#content(): AsyncGenerator<Uint8Array, void, undefined> {
    const header = parseHeader(await this.#start());
    const length = header?.contentSize ?? null;
    // A header that is not just ours is looked at by the decoder.
    const raw = length === null || !header?.ours ? null : this.#raw(length, 0, length);
    for (let bytes = await raw?.next() ?? null; bytes !== null; bytes = await raw?.next() ?? null) {
      yield bytes;
    }
    if (raw === null || raw.at !== length) {
      yield* this.#rest(raw?.at ?? 0, Infinity);
    }
  }

  /** Read all of it; the length of the blob. Throws `integrity` when it is damaged. */
  async check(): Promise<number> {
    const known = this.known();
    if (known !== null) return known;
    let length = 0;
    for await (const bytes of this.#checkedBytes({})) length += bytes.length;
    return length;
  }

  async *#checkedBytes(limits: Limits): AsyncGenerator<Uint8Array, void, undefined> {
    const remember = (length: number | null) =>
      this.checked.add(objectName(this.cid), this.info, this.since, { length });
    try {
      yield* verified(this.cid, this.#content(), limits, remember);
    } catch (error) {
      if (isError(error, "integrity") && !this.#failed) remember(null);
      throw error;
    }
  }

  async *#chunks(): AsyncGenerator<Uint8Array> {
    for (let at = 0;;) {
      const chunk = new Uint8Array(Math.min(READ, Math.max(1, this.info.size - at)));
      const count = await this.#readAt(chunk, at);
      if (count === 0) return;
      at += count;
      yield chunk.subarray(0, count);
    }
  }

  async #readAt(target: Uint8Array, at: number): Promise<number> {
    try {
      this.file.seekSync(at, Deno.SeekMode.Start);
      let count = 0;
      while (count < target.length) {
        const more = await this.file.read(target.subarray(count));
        if (more === null) break;
        count += more;
      }
      return count;
    } catch (error) {
      this.#failed = true;
      throw blobError(this.cid, objectError(error, "its object cannot be read"));
    }
  }

  [Symbol.dispose](): void {
    if (this.#open) this.file.close();
    this.#open = false;
  }
}
