/**
 * @module The blobs of a store in one SQLite file of which pages are damaged. Their names are in the table and in its
 * index; each is read from both ends up to the damage, so that one page hides no name.
 */

import type { Db, Row } from "../store/mod.ts";
import { nameToCid } from "./cid.ts";
import type { Held } from "./contract.ts";
import { isDamage } from "./sqlite_rows.ts";

/** Rows of one read, where there is no damage. */
const PAGE = 1000;

/** A way through the rows: the statement takes where it has come to, and how many rows it gives. */
interface Scan {
  readonly sql: string;
  readonly key: "name" | "rowid";
  readonly start: string | number;
}

const byIndex = (order: string, sign: string) =>
  `SELECT name FROM blobs WHERE name ${sign} ? ORDER BY name ${order} LIMIT ?`;
const byTable = (order: string, sign: string) =>
  `SELECT rowid, name, stored, stored_at FROM blobs NOT INDEXED WHERE rowid ${sign} ?
   ORDER BY rowid ${order} LIMIT ?`;

const SCANS: readonly Scan[] = [
  { sql: byTable("ASC", ">"), key: "rowid", start: 0 },
  { sql: byTable("DESC", "<"), key: "rowid", start: Number.MAX_SAFE_INTEGER },
  { sql: byIndex("ASC", ">"), key: "name", start: "" },
  // After every name: those are letters and digits.
  { sql: byIndex("DESC", "<"), key: "name", start: "~" },
];

/** Every blob after the name `after` that can be found. One whose row cannot be read is never old enough to be dropped. */
export async function* heldDespiteDamage(
  db: Db,
  after: string,
): AsyncGenerator<Held, void, undefined> {
  const seen = new Set<string>();
  for (const scan of SCANS) {
    for await (const { name, stored, stored_at } of rowsUpToDamage(db, scan)) {
      const cid = typeof name === "string" ? nameToCid(name) : null;
      if (cid === null || seen.has(name as string) || (name as string) <= after) continue;
      seen.add(name as string);
      yield { cid, bytes: Number(stored ?? 0), storedAt: Number(stored_at ?? Date.now()) };
    }
  }
}

async function* rowsUpToDamage(db: Db, { sql, key, start }: Scan): AsyncGenerator<Row> {
  let at: string | number = start;
  for (let limit = PAGE;;) {
    let rows: Row[];
    try {
      rows = await db.read((tx) => tx.all(sql, [at, limit]));
    } catch (error) {
      if (!isDamage(error)) throw error;
      if (limit === 1) return;
      limit = Math.ceil(limit / 2);
      continue;
    }
    yield* rows;
    const last = rows.at(-1)?.[key];
    if (rows.length < limit || (typeof last !== "string" && typeof last !== "number")) return;
    at = last;
  }
}
