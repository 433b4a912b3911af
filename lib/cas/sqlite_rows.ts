/**
 * @module The rows of a store in one SQLite file: blobs, and the chunks of their frames.
 *
 * A frame is written chunk by chunk, each in a transaction of its own, and belongs to no blob until it is whole: then
 * one transaction gives it to its blob. Frames that a crash left are known by their row in `uploads`.
 */

import { isError, SubletError } from "../home/mod.ts";
import type { Db, Tx } from "../store/mod.ts";
import { nameToCid } from "./cid.ts";
import type { Held } from "./contract.ts";
import { heldDespiteDamage } from "./sqlite_scan.ts";

/** Bytes of a chunk; the last one of a frame may have fewer. */
export const CHUNK = 512 * 1024;

/** The layout of the tables, for builds to come. */
const FORMAT = 1;

/** Rows of one read of a list. */
const PAGE = 1000;

const TABLES = [
  "CREATE TABLE IF NOT EXISTS store_format (version INTEGER NOT NULL) STRICT",
  `CREATE TABLE IF NOT EXISTS blobs (
     name TEXT PRIMARY KEY, frame INTEGER NOT NULL UNIQUE, length INTEGER NOT NULL,
     stored INTEGER NOT NULL, stored_at INTEGER NOT NULL
   ) STRICT`,
  // AUTOINCREMENT: the number of a frame is never used again, so a reader never gets another one's chunks.
  `CREATE TABLE IF NOT EXISTS uploads (
     frame INTEGER PRIMARY KEY AUTOINCREMENT, touched_at INTEGER NOT NULL
   ) STRICT`,
  `CREATE TABLE IF NOT EXISTS chunks (
     frame INTEGER NOT NULL, place INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (frame, place)
   ) STRICT`,
];

/** What is known of a blob. */
export interface BlobRow {
  readonly frame: number;
  /** Bytes of the blob. */
  readonly length: number;
  /** Bytes of its frame. */
  readonly stored: number;
}

const BLOB = "SELECT frame, length, stored FROM blobs WHERE name = ?";
const BYTES = "SELECT bytes FROM chunks WHERE frame = ? AND place = ?";

type BlobColumns = { frame: number; length: number; stored: number };
type BytesColumn = { bytes: Uint8Array<ArrayBuffer> };
type HeldColumns = { name: string; stored: number; stored_at: number };

/** The tables of a store. */
export class BlobRows {
  constructor(readonly db: Db) {}

  /** Make the tables that are missing. Throws `unavailable` when a newer build made them. */
  async make(path: string): Promise<void> {
    await this.db.write(async (tx) => {
      for (const table of TABLES) await tx.run(table);
      const found = await tx.get<{ version: number }>("SELECT version FROM store_format");
      if (found === null) await tx.run("INSERT INTO store_format (version) VALUES (?)", [FORMAT]);
      else if (found.version !== FORMAT) {
        throw new SubletError(
          "unavailable",
          `the store ${path} has format ${found.version}, and this sublet knows ${FORMAT}: a newer one made it. Use ` +
            "that one, or another path",
        );
      }
    });
  }

  find(name: string): Promise<BlobRow | null> {
    return this.db.read((tx) => this.findIn(tx, name));
  }

  findIn(tx: Tx, name: string): Promise<BlobRow | null> {
    return tx.get<BlobColumns>(BLOB, [name]);
  }

  /** The blob's row with the first chunk of its frame. */
  findWithStart(
    name: string,
  ): Promise<{ row: BlobRow; start: Uint8Array<ArrayBuffer> | null } | null> {
    return this.db.read(async (tx) => {
      const row = await tx.get<BlobColumns>(BLOB, [name]);
      if (row === null) return null;
      const start = await tx.get<BytesColumn>(BYTES, [row.frame, 0]);
      return { row, start: start?.bytes ?? null };
    });
  }

  /** Which of `names` are lacking. */
  lacking(names: readonly string[]): Promise<Set<string>> {
    return this.db.read(async (tx) => {
      const lacking = new Set<string>();
      for (const name of names) {
        const found = await tx.get("SELECT 1 AS one FROM blobs WHERE name = ?", [name]);
        if (found === null) lacking.add(name);
      }
      return lacking;
    });
  }

  /** A chunk of a frame, or null when there is none. */
  async chunk(frame: number, place: number): Promise<Uint8Array<ArrayBuffer> | null> {
    return (await this.db.read((tx) => tx.get<BytesColumn>(BYTES, [frame, place])))?.bytes ?? null;
  }

  /** The first `count` bytes of a frame. */
  async start(frame: number, count: number): Promise<Uint8Array> {
    const sql = "SELECT substr(bytes, 1, ?) AS bytes FROM chunks WHERE frame = ? AND place = 0";
    const found = await this.db.read((tx) => tx.get<BytesColumn>(sql, [count, frame]));
    return found?.bytes ?? new Uint8Array(0);
  }

  /** A new frame that belongs to no blob yet. */
  async begin(tx: Tx, now: number): Promise<number> {
    const row = await tx.get<{ frame: number }>(
      "INSERT INTO uploads (touched_at) VALUES (?) RETURNING frame",
      [now],
    );
    if (row === null) throw new SubletError("internal", "an insert returned nothing");
    return row.frame;
  }

  /** Add a chunk to a frame under way. */
  async add(tx: Tx, frame: number, place: number, bytes: Uint8Array, now: number): Promise<void> {
    const touched = "UPDATE uploads SET touched_at = ? WHERE frame = ?";
    if (await tx.run(touched, [now, frame]) === 0) throw stoodStill();
    const insert = "INSERT INTO chunks (frame, place, bytes) VALUES (?, ?, ?)";
    await tx.run(insert, [frame, place, bytes]);
  }

  /** Give a whole frame to its blob, unless it got one meanwhile that is none of the damaged frame `replaces`. */
  async publish(
    tx: Tx,
    name: string,
    row: BlobRow,
    replaces: number | null,
    now: number,
    frees: boolean,
  ): Promise<void> {
    if (await tx.run("DELETE FROM uploads WHERE frame = ?", [row.frame]) === 0) throw stoodStill();
    const before = await tx.get<BlobColumns>(BLOB, [name]);
    if (before !== null && before.frame !== replaces) {
      return await this.#dropChunks(tx, row.frame, frees);
    }
    if (before !== null) await this.drop(tx, name, before.frame, frees);
    await tx.run(
      "INSERT INTO blobs (name, frame, length, stored, stored_at) VALUES (?, ?, ?, ?, ?)",
      [name, row.frame, row.length, row.stored, now],
    );
  }

  /** Whether the blob still has `frame`, durably from then on. It is as young as if it had been stored `now`. */
  async keep(name: string, frame: number, now: number): Promise<boolean> {
    // A commit that changes something is synced, and with it all those before it, whoever made them.
    const changed = await this.db.write((tx) =>
      tx.run("UPDATE blobs SET stored_at = ? WHERE name = ? AND frame = ?", [now, name, frame])
    );
    return changed > 0;
  }

  /** Make the blobs `names` as young as if they had been stored `now`; those that are lacking. */
  keepAll(names: readonly string[], now: number): Promise<string[]> {
    return this.db.write(async (tx) => {
      const lost: string[] = [];
      for (const name of names) {
        const found = await tx.run("UPDATE blobs SET stored_at = ? WHERE name = ?", [now, name]);
        if (found === 0) lost.push(name);
      }
      return lost;
    });
  }

  /** Drop the blob if it was stored, or asked for, before `before` (Unix ms); its stored bytes, or null if it stays. */
  async collect(tx: Tx, name: string, before: number, frees: boolean): Promise<number | null> {
    const row = await tx.get<BlobColumns>(`${BLOB} AND stored_at < ?`, [name, before]);
    if (row === null) return null;
    await this.drop(tx, name, row.frame, frees);
    return frees ? row.stored : 0;
  }

  /** Drop a blob. */
  async drop(tx: Tx, name: string, frame: number, frees: boolean): Promise<void> {
    await tx.run("DELETE FROM blobs WHERE name = ?", [name]);
    await this.#dropChunks(tx, frame, frees);
  }

  /** Drop a frame that belongs to no blob. */
  async abandon(frame: number): Promise<void> {
    await this.dropping(async (tx, frees) => {
      if (await tx.run("DELETE FROM uploads WHERE frame = ?", [frame]) === 0) return;
      await this.#dropChunks(tx, frame, frees);
    });
  }

  async #dropChunks(tx: Tx, frame: number, frees: boolean): Promise<void> {
    if (frees) await tx.run("DELETE FROM chunks WHERE frame = ?", [frame]);
  }

  /**
   * A transaction that drops frames, whose pages it `frees`. Where one of these is damaged, nobody knows which follow
   * it: then it is done once more, and they stay in the file and belong to no blob.
   */
  async dropping<T>(body: (tx: Tx, frees: boolean) => Promise<T>): Promise<T> {
    try {
      return await this.db.write((tx) => body(tx, true));
    } catch (error) {
      if (!isDamage(error)) throw error;
      return await this.db.write((tx) => body(tx, false));
    }
  }

  /** Frames under way that nobody has added to since `before` (Unix ms), with their bytes so far. */
  async stale(before: number): Promise<{ frame: number; stored: number }[]> {
    return await this.db.read((tx) =>
      tx.all<{ frame: number; stored: number }>(
        `SELECT frame, (SELECT coalesce(sum(length(bytes)), 0) FROM chunks WHERE chunks.frame = uploads.frame) AS stored
         FROM uploads WHERE touched_at < ?`,
        [before],
      )
    );
  }

  async *held(): AsyncGenerator<Held, void, undefined> {
    for (let after = "";;) {
      let rows: HeldColumns[];
      try {
        rows = await this.db.read((tx) =>
          tx.all<HeldColumns>(
            "SELECT name, stored, stored_at FROM blobs WHERE name > ? ORDER BY name LIMIT ?",
            [after, PAGE],
          )
        );
      } catch (error) {
        if (!isDamage(error)) throw error;
        return yield* heldDespiteDamage(this.db, after);
      }
      for (const { name, stored, stored_at } of rows) {
        const cid = nameToCid(name);
        if (cid !== null) yield { cid, bytes: stored, storedAt: stored_at };
        after = name;
      }
      if (rows.length < PAGE) return;
    }
  }

  async usage(): Promise<{ blobs: number; bytes: number }> {
    const row = await this.db.read((tx) =>
      tx.get<{ blobs: number; bytes: number }>(
        "SELECT count(*) AS blobs, coalesce(sum(stored), 0) AS bytes FROM blobs",
      )
    );
    return { blobs: row?.blobs ?? 0, bytes: row?.bytes ?? 0 };
  }
}

/** Whether `error` says that a page of the file is damaged. */
export function isDamage(error: unknown): boolean {
  return isError(error, "unavailable") && error.message.includes("image is malformed");
}

function stoodStill(): SubletError {
  return new SubletError(
    "unavailable",
    "the put stood still for so long that it was taken for one of a crash. Put it again",
  );
}
