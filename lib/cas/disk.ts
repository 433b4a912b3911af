/**
 * @module The `disk` provider: a directory of objects, `<root>/blake3/<name>/bytes.zst`, each one zstd frame.
 *
 * A put hashes and writes in one pass into `<root>/tmp`, syncs the file, renames it and syncs the directories before it
 * returns, so that an object is there whole or not at all.
 */

import { existsSync } from "node:fs";
import { setImmediate } from "node:timers";
import { isError } from "../home/mod.ts";
import { blake3 } from "./blake3.ts";
import { CheckedObjects } from "./checked_objects.ts";
import { CopySource } from "./copy_file.ts";
import { cidOf, cidOfDigest, nameToCid, objectName } from "./cid.ts";
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
import type { SmallObject } from "./disk_journal.ts";
import { replayJournals } from "./disk_replay.ts";
import { prepareRoot, sum, sweep } from "./disk_root.ts";
import { SmallPuts } from "./disk_small.ts";
import { each } from "./each.ts";
import { isEmpty, noBytes } from "./empty.ts";
import { fileError, objectError, readThrough, writeBeside } from "./files.ts";
import { DiskKeeper, newest } from "./gc_disk.ts";
import { Intake, type IntakeStore, SMALL } from "./intake.ts";
import { checkAddress, checkCancelled, checkLength } from "./limits.ts";
import { decodeSmall } from "./object_decode.ts";
import { encode } from "./object_encode.ts";
import type { Adopting, AtHand, Frame, Framed } from "./serving.ts";
import { Slots } from "./slots.ts";
import { SmallCache } from "./small_cache.ts";
import { readSmall, readStart } from "./small_file.ts";
import { StoredObject } from "./stored_object.ts";
import { BytesBody, collect, drain, streamOf } from "./streams.ts";
import { SharedSync, syncDirectory } from "./sync_dir.ts";
import { TempFile } from "./temp_file.ts";
import { blobError, checkWhole } from "./verify.ts";
import { parseHeader } from "./zstd_frame.ts";

/** The largest blob whose small object is decoded in memory. */
const SMALL_DECODED = 1024 * 1024;

/** A frame that is not smaller than this share of its blob saves nothing. */
const WORTH = 0.97;

/** So many files are looked for at once: in the calling thread, which is several times less work than over another. */
const STATS = 1000;

/** Where a disk store is, and how it is kept. */
export interface DiskOptions {
  /** The store's root; made when it is missing. */
  readonly path: string;
  /** Temporary files older than this many milliseconds are removed when it opens, and by a sweep. Default: an hour. */
  readonly sweepAfterMs?: number;
  /** Whether what crashes left is removed when it opens, too. Default: it is. */
  readonly sweeps?: boolean | undefined;
  /** Whether it is opened as the local tier of a cache, whose directory is no store by itself. Default: it is a store. */
  readonly cache?: boolean;
  /** Blobs that were told to be there are kept from a collection's grace, but only once in so many milliseconds. */
  readonly keepEveryMs?: number;
}

/** Temporary files that nobody has written to for so many milliseconds are of a crash. */
const STALE_MS = 60 * 60 * 1000;

class DiskCas implements DiskStore {
  readonly #root: string;
  readonly #staleMs: number;
  readonly #objects: string;
  readonly #temporary: string;
  readonly #names: SharedSync;
  readonly #checked = new CheckedObjects();
  readonly #small = new SmallCache();
  /** Bounds the files that puts have open, whatever number of them is under way. */
  readonly #writers = new Slots(64);

  readonly #together: SmallPuts;
  readonly #intake: IntakeStore<TempFile>;

  /** What earlier processes left is on the disk. */
  readonly #settled: Promise<void>;
  readonly #keeper: DiskKeeper;

  constructor(
    settled: Promise<void>,
    { path: root, keepEveryMs, sweepAfterMs = STALE_MS }: DiskOptions,
  ) {
    this.#settled = settled;
    this.#keeper = new DiskKeeper(root, keepEveryMs);
    this.#staleMs = sweepAfterMs;
    this.#root = root;
    this.#objects = `${root}/blake3`;
    this.#temporary = `${root}/tmp`;
    this.#names = new SharedSync(this.#objects);
    this.#together = new SmallPuts(root, (object) => this.#storeAlone(object));
    this.#intake = {
      begin: () => TempFile.create(this.#temporary),
      put: (data, limits) => this.put(data, limits),
      intact: (cid) => this.#intact(cid),
      publish: (cid, file, length) => this.#publishLarge(cid, file, length),
    };
  }

  #directory(cid: Cid): string {
    return `${this.#objects}/${objectName(cid)}`;
  }

  #path(cid: Cid): string {
    return `${this.#directory(cid)}/bytes.zst`;
  }

  async has(cid: Cid): Promise<boolean> {
    if (isEmpty(cid)) return true;
    try {
      return (await Deno.stat(this.#path(cid))).isFile && this.#keeper.keep(cid);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      throw fileError(error, `cannot look for blob ${cid}`, "unavailable");
    }
  }

  async missing(cids: readonly Cid[]): Promise<Cid[]> {
    const lacking = new Set<Cid>();
    const unsure: Cid[] = [];
    const found: Cid[] = [];
    let at = 0;
    for (const cid of new Set(cids)) {
      if (existsSync(this.#path(cid))) found.push(cid);
      else if (isEmpty(cid)) continue;
      else unsure.push(cid);
      // Many questions take a while, and others wait.
      if (++at % STATS === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    unsure.push(...(await this.#keeper.keepAll(found)).filter((cid) => !isEmpty(cid)));
    // It may be there and not to be seen, which is no absence.
    await each(unsure, 16, async (cid) => {
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
    await this.#writers.run(() => this.#store(cid, data));
    return cid;
  }

  /** Store a small blob. */
  async #store(cid: Cid, data: Uint8Array): Promise<void> {
    if (!this.#makeDirectory(cid)) {
      if (await this.#intact(cid)) return;
      this.#keepDirectory(cid);
    }
    await this.#together.add({ cid, frame: await encode(data) });
    this.#keeper.wrote(cid);
  }

  async #storeAlone({ cid, frame }: SmallObject): Promise<void> {
    await using file = TempFile.create(this.#temporary);
    file.appendSync(frame);
    await this.#publish(cid, file);
  }

  async #publish(cid: Cid, file: TempFile): Promise<void> {
    await file.publish(this.#path(cid));
    await Promise.all([syncDirectory(this.#directory(cid)), this.#names.sync()]);
  }

  /** Store a large blob, of which the first reader need not be the one who checks it. */
  async #publishLarge(cid: Cid, file: TempFile, length: number): Promise<void> {
    if (!this.#makeDirectory(cid)) this.#keepDirectory(cid);
    const info = file.backdate();
    await this.#publish(cid, file);
    this.#keeper.wrote(cid);
    this.#checked.add(objectName(cid), info, Date.now(), { length });
  }

  /** Make the directory of `cid`; false when there was one. */
  #makeDirectory(cid: Cid): boolean {
    const path = this.#directory(cid);
    try {
      Deno.mkdirSync(path, { mode: 0o755 });
      return true;
    } catch (error) {
      if (error instanceof Deno.errors.AlreadyExists) return false;
      throw fileError(error, `cannot store blob ${cid}`, "unavailable");
    }
  }

  /** The directory of `cid` is about to get an object. A collection may have removed it, but does not from now on. */
  #keepDirectory(cid: Cid): void {
    while (!this.#keeper.keepDirectory(cid)) this.#makeDirectory(cid);
  }

  /** Whether the store holds `cid` undamaged; then it is durable, too, whoever wrote it. */
  async #intact(cid: Cid): Promise<boolean> {
    try {
      using object = await StoredObject.open(cid, this.#path(cid), this.#checked);
      if (object === null) return false;
      await object.check();
      if (await object.isAltered()) return false;
      await object.file.syncData();
    } catch (error) {
      if (isError(error, "integrity")) return false;
      throw fileError(error, `cannot read blob ${cid}`, "unavailable");
    }
    if (!this.#keeper.keep(cid)) return false;
    await Promise.all([syncDirectory(this.#directory(cid)), this.#names.sync()]);
    return true;
  }

  async putStream(source: ReadableStream<Uint8Array>, limits: Limits = {}): Promise<Cid> {
    await using intake = new Intake(this.#intake, limits);
    await drain(source, limits, (bytes) => intake.write(bytes));
    return await intake.finish();
  }

  async putFile(path: string): Promise<Cid> {
    using source = await CopySource.open(path);
    if (source?.isDense) return await this.#copyFile(source);
    await using intake = new Intake(this.#intake, {});
    await readThrough(path, (bytes) => intake.write(bytes));
    return await intake.finish();
  }

  async #copyFile(source: CopySource): Promise<Cid> {
    await using file = TempFile.create(this.#temporary);
    const cid = cidOfDigest(await source.copy(file));
    await this.#publishLarge(cid, file, source.info.size);
    return cid;
  }

  /** The checked bytes of a blob whose object is small, its open object otherwise, or null when there is none. */
  async #load(cid: Cid): Promise<Uint8Array<ArrayBuffer> | StoredObject | null> {
    if (isEmpty(cid)) return noBytes();
    const path = this.#path(cid);
    const found = this.#loadSmall(cid, path);
    return found === "large" ? await StoredObject.open(cid, path, this.#checked) : found;
  }

  #loadSmall(cid: Cid, path: string): Uint8Array<ArrayBuffer> | "large" | null {
    try {
      const frame = readSmall(path);
      if (frame === null || frame === "large") return frame;
      const data = decodeSmall(frame, SMALL_DECODED);
      if (data === null) return "large";
      checkWhole(cid, data);
      // What was read is good only until the next read.
      return data.slice();
    } catch (error) {
      throw blobError(cid, error);
    }
  }

  atHand(cid: Cid): Uint8Array<ArrayBuffer> | null {
    const known = this.#small.find(cid);
    if (known !== null) return known;
    const path = this.#path(cid);
    return this.#small.fill(cid, path, () => {
      const found = this.#loadSmall(cid, path);
      return found === "large" ? null : found;
    });
  }

  sizeAtHand(cid: Cid): number | null {
    const known = this.#small.find(cid)?.length ?? this.#announced(cid);
    return known !== null && this.#keeper.keep(cid) ? known : null;
  }

  /** The length that the object's header says, if it says one. */
  #announced(cid: Cid): number | null {
    const start = readStart(this.#path(cid));
    return start === null ? null : parseHeader(start)?.contentSize ?? null;
  }

  async getFrame(cid: Cid): Promise<Frame | null> {
    const object = await StoredObject.open(cid, this.#path(cid), this.#checked);
    return await object?.use(async () => {
      const { size } = object.info;
      const blob = await object.check();
      if (size < blob * WORTH) return { length: size, blob, stream: object.frame() };
      object[Symbol.dispose]();
      return null;
    }) ?? null;
  }

  get staging(): string {
    return this.#temporary;
  }

  get waiting(): string {
    return `${this.#root}/uploads`;
  }

  async adopt(cid: Cid, path: string, length: number): Promise<void> {
    await using file = TempFile.adopt(path);
    await this.#publishLarge(cid, file, length);
  }

  async get(cid: Cid): Promise<Uint8Array | null> {
    const found = await this.#load(cid);
    if (!(found instanceof StoredObject)) return found;
    return await found.use(() => collect(found.stream()));
  }

  async getStream(cid: Cid, limits: Limits = {}): Promise<BlobBody | null> {
    checkCancelled(limits);
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof StoredObject)) {
      checkLength(found.length, limits, cid);
      return new BytesBody(found);
    }
    return await found.use(async () => {
      const length = await found.length();
      checkLength(length, limits, cid);
      return { length, stream: found.stream(limits) };
    });
  }

  async getRange(
    cid: Cid,
    from: number,
    to?: number,
    options: Pick<Limits, "transient"> = {},
  ): Promise<BlobBody | null> {
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof StoredObject)) return new BytesBody(found.slice(from, to), found.length);
    return await found.use(async () => {
      const length = await found.check();
      return { length, stream: found.part(length, ...absolute(length, from, to), options) };
    });
  }

  /** Wait until the disk needs no journal any more to have what was put. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#together[Symbol.asyncDispose]();
    await this.#settled;
  }

  async sizeOf(cid: Cid, options: { readonly check?: boolean } = {}): Promise<number | null> {
    if (isEmpty(cid)) return 0;
    const length = await this.#sizeOf(cid, options.check ?? false);
    return length !== null && this.#keeper.keep(cid) ? length : null;
  }

  async #sizeOf(cid: Cid, check: boolean): Promise<number | null> {
    try {
      const path = this.#path(cid);
      if (!check) {
        const start = readStart(path);
        const announced = start === null ? null : parseHeader(start)?.contentSize ?? null;
        if (start === null || announced !== null) return announced;
      }
      const found = await this.#load(cid);
      if (!(found instanceof StoredObject)) return found?.length ?? null;
      using object = found;
      return check ? await object.check() : await object.length();
    } catch (error) {
      if (isError(error, "integrity")) return null;
      throw error;
    }
  }

  async getFile(cid: Cid, path: string): Promise<number | null> {
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof StoredObject)) return await writeBeside(path, streamOf(found));
    return await found.use(() => writeBeside(path, found.stream()));
  }

  async *list(): AsyncGenerator<Cid, void, undefined> {
    for await (const { cid } of this.held()) yield cid;
  }

  async usage(): Promise<Usage> {
    let blobs = 0;
    let bytes = 0;
    for await (const held of this.held()) {
      blobs++;
      bytes += held.bytes;
    }
    return { blobs, bytes };
  }

  async release(cid: Cid): Promise<number> {
    try {
      const { size } = await Deno.stat(this.#path(cid));
      // The directory stays, and with it what a cache keeps there.
      await Deno.remove(this.#path(cid));
      return size;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return 0;
      throw fileError(error, `cannot drop blob ${cid}`, "unavailable");
    }
  }

  get keepEveryMs(): number {
    return this.#keeper.everyMs;
  }

  async collect(cids: readonly Cid[], graceMs: number): Promise<Collected[]> {
    const freed = await this.#keeper.collect(cids, graceMs);
    return [...freed].map(([cid, bytes]) => ({ cid, bytes }));
  }

  keptAt(cid: Cid): number | null {
    return this.#keeper.keptAt(cid);
  }

  async sweep({ dryRun = false }: { readonly dryRun?: boolean } = {}): Promise<Leftovers> {
    const bare: Cid[] = [];
    for await (const { cid, info } of this.#directories()) if (info === null) bare.push(cid);
    // What is about to become a blob's may wait, on a disk that is busy, longer than any other file.
    const empty = await this.#keeper.sweep(bare, Math.max(this.#staleMs, STALE_MS), dryRun);
    return sum(await sweep(this.#temporary, this.#staleMs, { dryRun }), empty);
  }

  /**
   * Every object. Directories without one are what an eviction or a crash left. Something else in the place of one is
   * listed as well, so that a check finds it, but is never old enough to be dropped.
   */
  async *held(): AsyncGenerator<Held, void, undefined> {
    for await (const { cid, info } of this.#directories()) {
      if (info === null) continue;
      if (info?.isFile !== true) yield { cid, bytes: 0, storedAt: Date.now() };
      else {
        const { size, mtime } = info;
        yield { cid, bytes: size, storedAt: mtime?.getTime() ?? 0, keptAt: newest(info) };
      }
    }
  }

  /** The directories of blobs, with the status of the object in each: null when there is none, `undefined` when it has none. */
  async *#directories(): AsyncGenerator<{ cid: Cid; info: Deno.FileInfo | null | undefined }> {
    try {
      for await (const entry of Deno.readDir(this.#objects)) {
        const cid = nameToCid(entry.name);
        if (cid === null) continue;
        const info = await Deno.stat(this.#path(cid)).catch((error) => {
          if (error instanceof Deno.errors.NotFound) return null;
          if (isError(objectError(error, ""), "integrity")) return undefined;
          throw error;
        });
        yield { cid, info };
      }
    } catch (error) {
      throw fileError(error, `cannot list the store ${this.#objects}`, "unavailable");
    }
  }

  async integrity(cid: Cid): Promise<Integrity> {
    try {
      // What was checked lately is checked again: that is what is asked for.
      using object = await StoredObject.open(cid, this.#path(cid), new CheckedObjects());
      if (object === null) return isEmpty(cid) ? "ok" : "missing";
      await object.check();
      return await object.isAltered() ? "altered" : "ok";
    } catch (error) {
      if (isError(error, "integrity")) return "corrupt";
      throw error;
    }
  }
}

/** `from` and `to` as `Array.slice` counts them, as places in `length` bytes. */
function absolute(length: number, from: number, to = length): [number, number] {
  const place = (at: number) => at < 0 ? Math.max(0, length + at) : Math.min(length, at);
  return [place(from), place(to)];
}

/** A store on disk. */
export type DiskStore =
  & Cas
  & Upkeep
  & Ranged
  & Sized
  & Evictable
  & Collectable
  & AtHand
  & Framed
  & Adopting
  & AsyncDisposable
  & {
    /** When the blob, or its marker of a cache, was last stored or asked for (Unix ms); null: neither is here. */
    keptAt(cid: Cid): number | null;
  };

/** Open the store at `options.path`. `config` when it is a cache, `unavailable` when it cannot be written. */
export async function openDisk(options: DiskOptions): Promise<DiskStore> {
  await prepareRoot(options.path, options.cache);
  // The first request need not wait for the kernel.
  blake3(new Uint8Array(0));
  const { settled } = await replayJournals(options.path);
  if (options.sweeps ?? true) {
    await sweep(`${options.path}/tmp`, options.sweepAfterMs ?? STALE_MS);
  }
  return new DiskCas(settled, options);
}
