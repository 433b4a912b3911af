/**
 * @module The `sqlite` provider: all blobs in one SQLite file, each as one zstd frame in chunks.
 *
 * What was put is committed and synced when the call returns. Several processes may use one file.
 */

import { dirname } from "node:path";
import { isError } from "../home/mod.ts";
import { openSqlite, type Tx } from "../store/mod.ts";
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
import { isEmpty, noBytes } from "./empty.ts";
import { fileError, readThrough, writeBeside } from "./files.ts";
import { KEEP_EVERY_MS, KeptLately } from "./gc_keep.ts";
import { InUse } from "./in_use.ts";
import { Intake, SMALL } from "./intake.ts";
import { checkAddress, checkCancelled, checkLength } from "./limits.ts";
import { encode } from "./object_encode.ts";
import type { Frame, Framed } from "./serving.ts";
import { SqliteFrame } from "./sqlite_frame.ts";
import { type BlobRow, BlobRows, isDamage } from "./sqlite_rows.ts";
import { ChunkTarget } from "./sqlite_target.ts";
import { BytesBody, collect, drain, streamFrom, streamOf } from "./streams.ts";
import { blobError, damagedBlob } from "./verify.ts";

/** Names of one question. */
const BATCH = 1000;

/** Blobs of one transaction that drops them: others want to write, too. */
const COLLECTED = 32;

/** How long a check counts, in milliseconds: disks may rot without a trace. */
const CHECK_LIFETIME = 10 * 60 * 1000;

/** The most checks that are remembered. */
const CHECKS = 4096;

/** Where the store is, and how it is kept. */
export interface SqliteCasOptions {
  /** The database file. */
  readonly path: string;
  /** Puts under way that stand still for so many milliseconds are of a crash, and are removed. Default: an hour. */
  readonly sweepAfterMs?: number;
  /** Whether what crashes left is removed when it opens, too. Default: it is. */
  readonly sweeps?: boolean | undefined;
  /** Blobs that were told to be there are kept from a collection's grace, but only once in so many milliseconds. */
  readonly keepEveryMs?: number;
}

/** A frame that is not smaller than this share of its blob saves nothing. */
const WORTH = 0.9;

/** A store in one file. */
export type SqliteStore =
  & Cas
  & Upkeep
  & Ranged
  & Sized
  & Evictable
  & Collectable
  & Framed
  & AsyncDisposable;

class SqliteCas implements SqliteStore {
  readonly #rows: BlobRows;
  readonly #use = new InUse();
  /** Frames that were found whole, by number, as of a state of the file. */
  readonly #checked = new Map<number, { readonly version: number; readonly until: number }>();

  readonly #kept: KeptLately;
  readonly keepEveryMs: number;
  readonly #sweepAfterMs: number;

  constructor(rows: BlobRows, keepEveryMs: number, sweepAfterMs: number) {
    this.#rows = rows;
    this.#kept = new KeptLately(keepEveryMs);
    this.keepEveryMs = keepEveryMs;
    this.#sweepAfterMs = sweepAfterMs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rows.db[Symbol.asyncDispose]();
  }

  async has(cid: Cid): Promise<boolean> {
    if (isEmpty(cid)) return true;
    return await named(
      cid,
      async () => await this.#rows.find(objectName(cid)) !== null && await this.#keep([cid]) === 0,
    );
  }

  /** The blobs were found, and whoever asked may refer to them: none is collected for a while. How many are lost. */
  async #keep(cids: readonly Cid[], lost?: Set<string>): Promise<number> {
    const due = cids.filter((cid) => !this.#kept.has(cid));
    if (due.length === 0) return 0;
    const now = Date.now();
    const gone = new Set(await this.#rows.keepAll(due.map(objectName), now));
    for (const cid of due) if (!gone.has(objectName(cid))) this.#kept.add(cid, now);
    for (const name of gone) lost?.add(name);
    return gone.size;
  }

  async missing(cids: readonly Cid[]): Promise<Cid[]> {
    const lacking = new Set<string>();
    const names = [...new Set(cids.map(objectName))];
    for (let at = 0; at < names.length; at += BATCH) {
      for (const name of await this.#rows.lacking(names.slice(at, at + BATCH))) lacking.add(name);
    }
    const found = cids.filter((cid) => !lacking.has(objectName(cid)));
    for (let at = 0; at < found.length; at += BATCH) {
      await this.#keep(found.slice(at, at + BATCH), lacking);
    }
    return cids.filter((cid) => lacking.has(objectName(cid)) && !isEmpty(cid));
  }

  async put(data: Uint8Array, limits: Limits = {}): Promise<Cid> {
    checkCancelled(limits);
    checkLength(data.length, limits);
    if (data.length > SMALL) return await this.putStream(streamOf(data), limits);
    const cid = cidOf(data);
    checkAddress(cid, limits);
    await naming(cid, () => this.#store(cid, data));
    return cid;
  }

  /** Store a small blob. */
  async #store(cid: Cid, data: Uint8Array): Promise<void> {
    const found = await this.#intact(cid);
    if (found === true) return;
    const bytes = await encode(data);
    await this.#rows.dropping(async (tx, frees) => {
      const now = Date.now();
      const frame = await this.#rows.begin(tx, now);
      await this.#rows.add(tx, frame, 0, bytes, now);
      const row = { frame, length: data.length, stored: bytes.length };
      await this.#rows.publish(tx, objectName(cid), row, found, now, frees);
    });
  }

  /** True: the store holds the blob undamaged, and durably. Else its damaged frame, or null when it has none. */
  async #intact(cid: Cid): Promise<true | number | null> {
    using _use = this.#use.hold(cid);
    const name = objectName(cid);
    while (true) {
      const frame = await this.#open(cid);
      if (frame === null) return null;
      try {
        await this.#check(frame);
        if (await frame.isAltered()) return frame.row.frame;
      } catch (error) {
        if (isError(error, "integrity")) return frame.row.frame;
        // It was stored anew, or dropped: look again.
        if (await this.#moved(frame, error)) continue;
        throw error;
      }
      if (await this.#rows.keep(name, frame.row.frame, Date.now())) return true;
    }
  }

  /** Whether `error` came of reading a frame that its blob no longer has. */
  async #moved(frame: SqliteFrame, error: unknown): Promise<boolean> {
    if (!isError(error, "unavailable")) return false;
    return (await this.#rows.find(objectName(frame.cid)))?.frame !== frame.row.frame;
  }

  async putStream(source: ReadableStream<Uint8Array>, limits: Limits = {}): Promise<Cid> {
    await using intake = this.#intake(limits);
    await drain(source, limits, (bytes) => intake.write(bytes));
    return await intake.finish();
  }

  async putFile(path: string): Promise<Cid> {
    await using intake = this.#intake({});
    await readThrough(path, (bytes) => intake.write(bytes));
    return await intake.finish();
  }

  #intake(limits: Limits): Intake<ChunkTarget> {
    return new Intake({
      begin: () => ChunkTarget.begin(this.#rows),
      put: (data: Uint8Array, limits: Limits) => this.put(data, limits),
      intact: async (cid: Cid) => await this.#intact(cid) === true,
      publish: (cid: Cid, target: ChunkTarget, length: number) =>
        target.finish(() =>
          this.#publish(cid, { frame: target.frame, length, stored: target.stored })
        ),
    }, limits);
  }

  async #publish(cid: Cid, row: BlobRow): Promise<void> {
    await naming(cid, async () => {
      const found = await this.#intact(cid);
      if (found === true) return await this.#rows.abandon(row.frame);
      await this.#rows.dropping((tx, frees) =>
        this.#rows.publish(tx, objectName(cid), row, found, Date.now(), frees)
      );
    });
  }

  async #open(cid: Cid): Promise<SqliteFrame | null> {
    const row = await this.#rows.find(objectName(cid));
    return row === null ? null : new SqliteFrame(this.#rows, cid, row);
  }

  /** The checked bytes of a small blob, the frame of a large one, or null when there is none. */
  async #load(cid: Cid): Promise<Uint8Array<ArrayBuffer> | SqliteFrame | null> {
    if (isEmpty(cid)) return noBytes();
    return await named(cid, async () => {
      const found = await this.#rows.findWithStart(objectName(cid));
      if (found === null) return null;
      const frame = new SqliteFrame(this.#rows, cid, found.row);
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
    using _use = this.#use.hold(cid);
    await named(cid, () => this.#check(found));
    const { length } = found.row;
    const place = (at: number) => at < 0 ? Math.max(0, length + at) : Math.min(length, at);
    return this.#body(found, found.part(place(from), place(to ?? length)));
  }

  async getFrame(cid: Cid): Promise<Frame | null> {
    using _use = this.#use.hold(cid);
    const frame = await named(cid, () => this.#open(cid));
    if (frame === null) return null;
    const { stored, length } = frame.row;
    if (stored >= length * WORTH) return null;
    await this.#check(frame);
    return { length: stored, blob: length, stream: this.#body(frame, frame.chunks()).stream };
  }

  /** `bytes` of the blob, which is not released while they are read. */
  #body(frame: SqliteFrame, bytes: AsyncGenerator<Uint8Array>): BlobBody {
    const body = { length: frame.row.length, stream: streamFrom(bytes) };
    return this.#use.holdBody(frame.cid, body);
  }

  /** Read and hash all of a frame, unless it was lately. Throws `integrity` when it is damaged. */
  async #check(frame: SqliteFrame): Promise<void> {
    const version = this.#rows.db.dataVersion();
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
    return length === null || await named(cid, () => this.#keep([cid])) > 0 ? null : length;
  }

  async #sizeOf(cid: Cid, options: { readonly check?: boolean }): Promise<number | null> {
    const frame = await named(cid, () => this.#open(cid));
    if (frame === null) return null;
    try {
      if (options.check) await this.#check(frame);
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

  async *list(): AsyncGenerator<Cid, void, undefined> {
    for await (const { cid } of this.held()) yield cid;
  }

  held(): AsyncGenerator<Held, void, undefined> {
    return this.#rows.held();
  }

  async release(cid: Cid): Promise<number> {
    const name = objectName(cid);
    return await named(cid, () =>
      this.#rows.dropping(async (tx, frees) => {
        const row = await this.#rows.findIn(tx, name);
        if (row === null || this.#use.has(cid)) return 0;
        await this.#rows.drop(tx, name, row.frame, frees);
        return frees ? row.stored : 0;
      }));
  }

  async collect(cids: readonly Cid[], graceMs: number): Promise<Collected[]> {
    const collected: Collected[] = [];
    for (let at = 0; at < cids.length; at += COLLECTED) {
      const batch = cids.slice(at, at + COLLECTED);
      try {
        collected.push(...await this.#rows.db.write((tx) => this.#drop(tx, batch, graceMs, true)));
      } catch (error) {
        if (!isDamage(error)) throw error;
        // One at a time: a damaged page is that of few.
        for (const cid of batch) {
          const drop = (tx: Tx, frees: boolean) => this.#drop(tx, [cid], graceMs, frees);
          collected.push(...await this.#rows.dropping(drop));
        }
      }
    }
    return collected;
  }

  async #drop(
    tx: Tx,
    cids: readonly Cid[],
    graceMs: number,
    frees: boolean,
  ): Promise<Collected[]> {
    const before = Date.now() - graceMs;
    const dropped: Collected[] = [];
    for (const cid of cids) {
      if (this.#use.has(cid)) continue;
      const bytes = await this.#rows.collect(tx, objectName(cid), before, frees);
      if (bytes !== null) dropped.push({ cid, bytes });
    }
    return dropped;
  }

  async sweep({ dryRun = false }: { readonly dryRun?: boolean } = {}): Promise<Leftovers> {
    let count = 0;
    let bytes = 0;
    for (const { frame, stored } of await this.#rows.stale(Date.now() - this.#sweepAfterMs)) {
      if (!dryRun) await this.#rows.abandon(frame);
      count++;
      bytes += stored;
    }
    return { count, bytes };
  }

  usage(): Promise<Usage> {
    return this.#rows.usage();
  }

  async integrity(cid: Cid): Promise<Integrity> {
    try {
      const frame = await named(cid, () => this.#open(cid));
      if (frame === null) return isEmpty(cid) ? "ok" : "missing";
      await named(cid, () => drain(streamFrom(frame.checked()), {}, () => {}));
      return await frame.isAltered() ? "altered" : "ok";
    } catch (error) {
      if (isError(error, "integrity")) return "corrupt";
      throw error;
    }
  }
}

/** The result of `work` on the blob, whose address its errors name. */
async function naming<T>(cid: Cid, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw blobError(cid, error);
  }
}

/** The result of reading the blob by `work`. A damaged page of the file is a damaged blob. */
async function named<T>(cid: Cid, work: () => Promise<T>): Promise<T> {
  return await naming(cid, () =>
    work().catch((error) => {
      throw isDamage(error) ? damagedBlob(cid, "a page of its file is", error) : error;
    }));
}

/** Open the store in the file `options.path`, made when it is missing. Throws `unavailable` when it cannot be used. */
export async function openSqliteCas(options: SqliteCasOptions): Promise<SqliteStore> {
  const { path, sweepAfterMs = 60 * 60 * 1000, keepEveryMs = KEEP_EVERY_MS } = options;
  try {
    await Deno.mkdir(dirname(path), { recursive: true });
  } catch (error) {
    throw fileError(error, `cannot make the store ${path}`, "unavailable");
  }
  const rows = new BlobRows(await openSqlite(path, { migrations: false }));
  try {
    await rows.make(path);
    const store = new SqliteCas(rows, keepEveryMs, sweepAfterMs);
    if (options.sweeps ?? true) await store.sweep();
    return store;
  } catch (error) {
    await rows.db[Symbol.asyncDispose]();
    throw error;
  }
}
