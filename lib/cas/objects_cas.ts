/**
 * @module A store over the objects of a bucket: what `s3` and `gcs` share.
 *
 * A put hashes and compresses in one pass, in memory or into a temporary file, and then writes the object under its
 * name at once: nothing is visible before it is whole. An object that is there already is not written again, unless it
 * proves to be damaged.
 */

import { type Clock, isError } from "../home/mod.ts";
import { cidOf, objectName } from "./cid.ts";
import type {
  BlobBody,
  Cas,
  Cid,
  Collectable,
  Collected,
  Evictable,
  Held,
  Integrity,
  Leftovers,
  Limits,
  Ranged,
  Sized,
  Upkeep,
  Usage,
} from "./contract.ts";
import { sum } from "./disk_root.ts";
import { each } from "./each.ts";
import { isEmpty, noBytes } from "./empty.ts";
import { readThrough, writeBeside } from "./files.ts";
import { Intake, type IntakeStore, SMALL } from "./intake.ts";
import { checkAddress, checkCancelled, checkLength } from "./limits.ts";
import { decodeSmall } from "./object_decode.ts";
import { encode } from "./object_encode.ts";
import { type Bucket, keyToCid, type ObjectInfo, objectKey, OBJECTS } from "./objects.ts";
import { Frame } from "./objects_frame.ts";
import { contradicts, keptKey, ObjectsKeeper } from "./objects_keep.ts";
import { announcedLength, BucketObject, type ReadContext } from "./objects_read.ts";
import { sweepBucket } from "./objects_sweep.ts";
import { WholeObjects } from "./objects_tags.ts";
import type { UploadsDirectory } from "./objects_tmp.ts";
import { Slots } from "./slots.ts";
import { BytesBody, collect, drain, placesIn, streamFrom, streamOf } from "./streams.ts";
import { TempFile } from "./temp_file.ts";
import { usageOf } from "./usage.ts";
import { blobError, checkWhole } from "./verify.ts";
import { isAltered } from "./zstd_frame.ts";

/** Objects up to this size are read in one go, if their blob is no larger than {@linkcode SMALL_DECODED}. */
const SMALL_OBJECT = 256 * 1024;
const SMALL_DECODED = 1024 * 1024;

/** Up to this size an object is sent without asking for it first: most that are put are new. */
const UNASKED = 64 * 1024;

/** Questions at once. */
const WIDTH = 32;

/** Puts that talk to the bucket at once: from memory, and from files, of which each may send several parts. */
const WRITERS = 32;
const FILE_WRITERS = 8;

/** A store over a bucket. */
export type ObjectsStore =
  & Cas
  & Upkeep
  & Ranged
  & Sized
  & Evictable
  & Collectable
  & AsyncDisposable;

/** How a store over a bucket is kept. */
export interface ObjectsOptions {
  /** A directory for temporary files, of this store alone. It is disposed with the store. */
  readonly uploads: UploadsDirectory;
  readonly clock: Clock;
  /** Blobs that were told to be there are kept from a collection's grace, but only once in so many milliseconds. */
  readonly keepEveryMs?: number | undefined;
}

/** The clock of a bucket may differ from ours by so many milliseconds. */
const SKEW_MS = 15 * 60 * 1000;

/** How often a put looks again whether there is an object, when it comes and goes. */
const TRIES = 8;

class ObjectsCas implements ObjectsStore {
  readonly #bucket: Bucket;
  readonly #uploads: ObjectsOptions["uploads"];
  readonly #whole = new WholeObjects();
  readonly #writers = new Slots(WRITERS);
  readonly #fileWriters = new Slots(FILE_WRITERS);
  readonly #reads: ReadContext;
  readonly #keeper: ObjectsKeeper;

  constructor(bucket: Bucket, { uploads, clock, keepEveryMs }: ObjectsOptions) {
    this.#keeper = new ObjectsKeeper(bucket, clock, keepEveryMs);
    this.#bucket = bucket;
    this.#uploads = uploads;
    this.#reads = { bucket, whole: this.#whole, clock, ahead: { readers: 0 } };
  }

  /** What an intake of bytes, which may be cancelled by `signal`, needs. */
  #intake(signal: AbortSignal | undefined): IntakeStore<TempFile> {
    return {
      begin: () => TempFile.create(this.#uploads.path),
      put: (data, limits) => this.put(data, limits),
      intact: (cid) => this.#isKnownWhole(cid),
      publish: async (cid, file, length) =>
        await this.#store(cid, await Frame.ofFile(file.path), length, signal),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#bucket[Symbol.dispose]();
    await this.#uploads[Symbol.asyncDispose]();
  }

  async has(cid: Cid): Promise<boolean> {
    return isEmpty(cid) || await this.#find(cid) !== null;
  }

  /** The object's state, of which somebody is told: it is kept from a collection. Null: there is none. */
  async #find(cid: Cid): Promise<ObjectInfo | null> {
    const info = await this.#bucket.stat(objectKey(cid));
    return info !== null && await this.#keeper.keep(cid, info) ? info : null;
  }

  async missing(cids: readonly Cid[]): Promise<Cid[]> {
    const lacking = new Set<Cid>();
    await each(new Set(cids), WIDTH, async (cid) => {
      if (!await this.has(cid)) lacking.add(cid);
    });
    return cids.filter((cid) => lacking.has(cid));
  }

  async put(data: Uint8Array, limits: Limits = {}): Promise<Cid> {
    checkCancelled(limits);
    checkLength(data.length, limits);
    if (data.length > SMALL) return await this.putStream(streamOf(data), limits);
    const cid = cidOf(data);
    checkAddress(cid, limits);
    await this.#store(cid, Frame.of(await encode(data)), data.length, limits.signal);
    return cid;
  }

  async putStream(source: ReadableStream<Uint8Array>, limits: Limits = {}): Promise<Cid> {
    await using intake = new Intake(this.#intake(limits.signal), limits);
    await drain(source, limits, (bytes) => intake.write(bytes));
    return await intake.finish();
  }

  async putFile(path: string): Promise<Cid> {
    await using intake = new Intake(this.#intake(undefined), {});
    await readThrough(path, (bytes) => intake.write(bytes));
    return await intake.finish();
  }

  /** Make `frame` the object of `cid`, a blob of `length` bytes, unless an undamaged one is there. */
  async #store(cid: Cid, frame: Frame, length: number, signal?: AbortSignal): Promise<void> {
    const writers = frame.bytes === null ? this.#fileWriters : this.#writers;
    await writers.run(async () => {
      try {
        const tag = await this.#write(cid, frame, signal);
        if (tag === null) return;
        this.#keeper.wrote(cid);
        this.#whole.add(objectName(cid), tag, length);
      } catch (error) {
        throw blobError(cid, error);
      }
    });
  }

  /** The tag of the object that was written, or null when there is one already. */
  async #write(cid: Cid, frame: Frame, signal?: AbortSignal): Promise<string | null> {
    const key = objectKey(cid);
    const asks = frame.size > UNASKED || this.#whole.knows(objectName(cid));
    let found = asks ? await this.#bucket.stat(key, signal) : null;
    for (let left = TRIES; left > 0; left--) {
      if (found !== null && await this.#keeper.keep(cid, found)) {
        if (await this.#isWhole(cid, found, frame)) return null;
        return await this.#bucket.put(key, frame, { onlyNew: false, signal });
      }
      const tag = await this.#bucket.put(key, frame, { onlyNew: true, signal });
      if (tag !== null) return tag;
      found = await this.#bucket.stat(key, signal);
    }
    throw contradicts(cid);
  }

  /** Whether the object of `cid` in the state `info` is undamaged, of which `frame` is another copy. */
  async #isWhole(cid: Cid, info: ObjectInfo, frame: Frame): Promise<boolean> {
    // What cannot be read cannot be checked, and writing it again would be dear.
    if (info.archived !== null && info.size > 0) return true;
    if (this.#whole.find(objectName(cid), info.tag) !== null) return true;
    if (await this.#bucket.holds(info, frame)) return true;
    return await this.integrity(cid) === "ok";
  }

  /** Whether it is known, without reading the object, that it is there and undamaged. */
  async #isKnownWhole(cid: Cid): Promise<boolean> {
    if (!this.#whole.knows(objectName(cid))) return false;
    const info = await this.#find(cid);
    return info !== null && this.#whole.find(objectName(cid), info.tag) !== null;
  }

  /** The checked bytes of a blob whose object is small, its open object otherwise, or null when there is none. */
  async #load(
    cid: Cid,
    signal?: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer> | BucketObject | null> {
    if (isEmpty(cid)) return noBytes();
    const object = await BucketObject.open(this.#reads, cid, signal);
    if (object === null || object.info.size > SMALL_OBJECT) return object;
    const { info } = object;
    try {
      const frame = await object.bytes();
      const data = decodeSmall(frame, SMALL_DECODED);
      if (data === null) return await BucketObject.open(this.#reads, cid, signal);
      checkWhole(cid, data);
      if (!isAltered(frame)) this.#whole.add(objectName(cid), info.tag, data.length);
      return data.slice();
    } catch (error) {
      this.#whole.forget(objectName(cid));
      throw blobError(cid, error);
    }
  }

  async get(cid: Cid): Promise<Uint8Array | null> {
    const found = await this.#load(cid);
    return found instanceof BucketObject ? await collect(streamed(found)) : found;
  }

  async getStream(cid: Cid, limits: Limits = {}): Promise<BlobBody | null> {
    checkCancelled(limits);
    const found = await this.#load(cid, limits.signal);
    if (found === null) return null;
    if (!(found instanceof BucketObject)) {
      checkLength(found.length, limits, cid);
      return new BytesBody(found);
    }
    return await found.body(limits);
  }

  async getRange(
    cid: Cid,
    from: number,
    to?: number,
    options: Pick<Limits, "transient"> = {},
  ): Promise<BlobBody | null> {
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof BucketObject)) return new BytesBody(found.slice(from, to), found.length);
    const { info } = found;
    const length = await found.check();
    const part = found.part(info, length, ...placesIn(length, from, to));
    return { length, stream: streamFrom(part, options) };
  }

  async sizeOf(cid: Cid, options: { readonly check?: boolean } = {}): Promise<number | null> {
    if (isEmpty(cid)) return 0;
    const length = await this.#sizeOf(cid, options.check ?? false);
    if (length === null || this.#keeper.isKept(cid)) return length;
    return await this.#find(cid) === null ? null : length;
  }

  async #sizeOf(cid: Cid, check: boolean): Promise<number | null> {
    try {
      if (!check) {
        const announced = await announcedLength(this.#reads, cid);
        if (announced === undefined) return null;
        if (announced !== null) return announced;
      }
      const found = await this.#load(cid);
      return found instanceof BucketObject ? await found.check() : found?.length ?? null;
    } catch (error) {
      if (isError(error, "integrity")) return null;
      throw blobError(cid, error);
    }
  }

  async getFile(cid: Cid, path: string): Promise<number | null> {
    const found = await this.#load(cid);
    if (found === null) return null;
    const stream = found instanceof BucketObject ? streamed(found) : streamOf(found);
    return await writeBeside(path, stream);
  }

  async *list(): AsyncGenerator<Cid, void, undefined> {
    for await (const { cid } of this.held()) yield cid;
  }

  usage(): Promise<Usage> {
    return usageOf(this.held());
  }

  async *held(): AsyncGenerator<Held, void, undefined> {
    // What is beside an object comes right after it.
    let last: Required<Held>[] = [];
    for await (const { key, size, modified } of this.#bucket.list(OBJECTS)) {
      const keptAt = modified + SKEW_MS;
      last = last.map((held) =>
        key === keptKey(held.cid) ? { ...held, keptAt: Math.max(held.keptAt, keptAt) } : held
      );
      const cid = keyToCid(key);
      if (cid === null) continue;
      yield* last;
      last = [{ cid, bytes: size, storedAt: modified, keptAt }];
    }
    yield* last;
  }

  get keepEveryMs(): number {
    return this.#keeper.everyMs;
  }

  async unsafeBecause(): Promise<string | null> {
    if (await this.#keeper.isGuarded()) return null;
    return `${this.#bucket.where} knows no conditional writes (If-None-Match), by which those who put would see a collection`;
  }

  async collect(cids: readonly Cid[], graceMs: number): Promise<Collected[]> {
    const collected: Collected[] = [];
    const before = this.#reads.clock.now() - graceMs - SKEW_MS;
    await each(cids, WIDTH, async (cid) => {
      const bytes = await this.#keeper.collect(cid, before);
      if (bytes === null) return;
      this.#whole.forget(objectName(cid));
      collected.push({ cid, bytes });
    });
    return collected;
  }

  async sweep({ dryRun = false }: { readonly dryRun?: boolean } = {}): Promise<Leftovers> {
    const here = await this.#uploads.sweep(dryRun);
    return sum(here, await sweepBucket(this.#bucket, this.#reads.clock, dryRun));
  }

  async release(cid: Cid): Promise<number> {
    const info = await this.#bucket.stat(objectKey(cid));
    if (info === null) return 0;
    await this.#bucket.remove(objectKey(cid));
    return info.size;
  }

  async integrity(cid: Cid): Promise<Integrity> {
    const object = await BucketObject.open(this.#reads, cid);
    if (object === null) return isEmpty(cid) ? "ok" : "missing";
    try {
      // Not `check`, which takes what was found before.
      for await (const _ of object.checked());
      if (!object.isAltered()) return "ok";
      // The next put writes it anew.
      this.#whole.forget(objectName(cid));
      return "altered";
    } catch (error) {
      if (isError(error, "integrity")) return "corrupt";
      throw error;
    }
  }
}

/** The bytes of `object`, which is let go of when nobody reads them. */
function streamed(object: BucketObject): ReadableStream<Uint8Array> {
  return streamFrom(object.checked(), { close: () => void object.close() });
}

/** The store over `bucket`. */
export function openObjects(bucket: Bucket, options: ObjectsOptions): ObjectsStore {
  return new ObjectsCas(bucket, options);
}
