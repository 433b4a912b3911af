/**
 * @module The `disk` provider: a directory of objects, `<root>/blake3/<name>/bytes.zst`, each one zstd frame.
 *
 * A put hashes and writes in one pass into `<root>/tmp`, syncs the file, renames it and syncs the directories before it
 * returns, so that an object is there whole or not at all.
 */

import { isError } from "../home/mod.ts";
import { blake3 } from "./blake3.ts";
import { CopySource } from "./copy_file.ts";
import { cidOf, cidOfDigest, objectName } from "./cid.ts";
import type {
  Cas,
  Cid,
  Collectable,
  Evictable,
  Limits,
  Ranged,
  Sized,
  Upkeep,
} from "./contract.ts";
import { type DirectoryOptions, STALE_MS } from "./disk_directory.ts";
import type { SmallObject } from "./disk_journal.ts";
import { DiskReads } from "./disk_reads.ts";
import { replayJournals } from "./disk_replay.ts";
import { prepareRoot, sweep } from "./disk_root.ts";
import { SmallPuts } from "./disk_small.ts";
import { fileError, readThrough } from "./files.ts";
import { Intake, type IntakeStore, SMALL } from "./intake.ts";
import { checkAddress, checkCancelled, checkLength } from "./limits.ts";
import { encode } from "./object_encode.ts";
import type { Adopting, AtHand, Framed } from "./serving.ts";
import { Slots } from "./slots.ts";
import { StoredObject } from "./stored_object.ts";
import { drain, streamOf } from "./streams.ts";
import { SharedSync, syncDirectory } from "./sync_dir.ts";
import { TempFile } from "./temp_file.ts";

/** Where a disk store is, and how it is kept. Its root is made when it is missing. */
export interface DiskOptions extends DirectoryOptions {
  /** Whether what crashes left is removed when it opens, too. Default: it is. */
  readonly sweeps?: boolean | undefined;
  /** Whether it is opened as the local tier of a cache, whose directory is no store by itself. Default: it is a store. */
  readonly cache?: boolean;
}

class DiskCas extends DiskReads implements DiskStore {
  readonly #names: SharedSync;
  /** Bounds the files that puts have open, whatever number of them is under way. */
  readonly #writers = new Slots(64);
  readonly #together: SmallPuts;
  readonly #intake: IntakeStore<TempFile>;
  /** What earlier processes left is on the disk. */
  readonly #settled: Promise<void>;

  constructor(settled: Promise<void>, options: DiskOptions) {
    super(options);
    this.#settled = settled;
    this.#names = new SharedSync(this.objects);
    this.#together = new SmallPuts(this.root, (object) => this.#storeAlone(object));
    this.#intake = {
      begin: () => TempFile.create(this.temporary),
      put: (data, limits) => this.put(data, limits),
      intact: (cid) => this.#intact(cid),
      publish: (cid, file, length) => this.#publishLarge(cid, file, length),
    };
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
    this.keeper.wrote(cid);
  }

  async #storeAlone({ cid, frame }: SmallObject): Promise<void> {
    await using file = TempFile.create(this.temporary);
    file.appendSync(frame);
    await this.#publish(cid, file);
  }

  async #publish(cid: Cid, file: TempFile): Promise<void> {
    await file.publish(this.path(cid));
    await Promise.all([syncDirectory(this.directory(cid)), this.#names.sync()]);
  }

  /** Store a large blob, of which the first reader need not be the one who checks it. */
  async #publishLarge(cid: Cid, file: TempFile, length: number): Promise<void> {
    if (!this.#makeDirectory(cid)) this.#keepDirectory(cid);
    const info = file.backdate();
    await this.#publish(cid, file);
    this.keeper.wrote(cid);
    this.checked.add(objectName(cid), info, Date.now(), { length });
  }

  /** Make the directory of `cid`; false when there was one. */
  #makeDirectory(cid: Cid): boolean {
    const path = this.directory(cid);
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
    while (!this.keeper.keepDirectory(cid)) this.#makeDirectory(cid);
  }

  /** Whether the store holds `cid` undamaged; then it is durable, too, whoever wrote it. */
  async #intact(cid: Cid): Promise<boolean> {
    try {
      using object = await StoredObject.open(cid, this.path(cid), this.checked);
      if (object === null) return false;
      await object.check();
      if (await object.isAltered()) return false;
      await object.file.syncData();
    } catch (error) {
      if (isError(error, "integrity")) return false;
      throw fileError(error, `cannot read blob ${cid}`, "unavailable");
    }
    if (!this.keeper.keep(cid)) return false;
    await Promise.all([syncDirectory(this.directory(cid)), this.#names.sync()]);
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
    await using file = TempFile.create(this.temporary);
    const cid = cidOfDigest(await source.copy(file));
    await this.#publishLarge(cid, file, source.info.size);
    return cid;
  }

  get staging(): string {
    return this.temporary;
  }

  get waiting(): string {
    return `${this.root}/uploads`;
  }

  async adopt(cid: Cid, path: string, length: number): Promise<void> {
    await using file = TempFile.adopt(path);
    await this.#publishLarge(cid, file, length);
  }

  /** Wait until the disk needs no journal any more to have what was put. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#together[Symbol.asyncDispose]();
    await this.#settled;
  }
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
