/**
 * @module The `sqlite` provider: all blobs in one SQLite file, each as one zstd frame in chunks.
 *
 * What was put is committed and synced when the call returns. Several processes may use one file.
 */

import { dirname } from "node:path";
import { isError } from "../home/mod.ts";
import { openSqlite } from "../store/mod.ts";
import { cidOf, objectName } from "./cid.ts";
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
import { fileError, readThrough } from "./files.ts";
import { KEEP_EVERY_MS } from "./gc_keep.ts";
import { Intake, SMALL } from "./intake.ts";
import { checkAddress, checkCancelled, checkLength } from "./limits.ts";
import { encode } from "./object_encode.ts";
import type { Framed } from "./serving.ts";
import { naming } from "./sqlite_errors.ts";
import type { SqliteFrame } from "./sqlite_frame.ts";
import { SqliteReads } from "./sqlite_reads.ts";
import { type BlobRow, BlobRows } from "./sqlite_rows.ts";
import { ChunkTarget } from "./sqlite_target.ts";
import { drain, streamOf } from "./streams.ts";

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

class SqliteCas extends SqliteReads implements SqliteStore {
  async [Symbol.asyncDispose](): Promise<void> {
    await this.rows.db[Symbol.asyncDispose]();
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
    await this.rows.dropping(async (tx, frees) => {
      const now = Date.now();
      const frame = await this.rows.begin(tx, now);
      await this.rows.add(tx, frame, 0, bytes, now);
      const row = { frame, length: data.length, stored: bytes.length };
      await this.rows.publish(tx, objectName(cid), row, found, now, frees);
    });
  }

  /** True: the store holds the blob undamaged, and durably. Else its damaged frame, or null when it has none. */
  async #intact(cid: Cid): Promise<true | number | null> {
    using _use = this.use.hold(cid);
    const name = objectName(cid);
    while (true) {
      const frame = await this.open(cid);
      if (frame === null) return null;
      try {
        await this.check(frame);
        if (await frame.isAltered()) return frame.row.frame;
      } catch (error) {
        if (isError(error, "integrity")) return frame.row.frame;
        // It was stored anew, or dropped: look again.
        if (await this.#moved(frame, error)) continue;
        throw error;
      }
      if (await this.rows.keep(name, frame.row.frame, Date.now())) return true;
    }
  }

  /** Whether `error` came of reading a frame that its blob no longer has. */
  async #moved(frame: SqliteFrame, error: unknown): Promise<boolean> {
    if (!isError(error, "unavailable")) return false;
    return (await this.rows.find(objectName(frame.cid)))?.frame !== frame.row.frame;
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
      begin: () => ChunkTarget.begin(this.rows),
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
      if (found === true) return await this.rows.abandon(row.frame);
      await this.rows.dropping((tx, frees) =>
        this.rows.publish(tx, objectName(cid), row, found, Date.now(), frees)
      );
    });
  }
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
