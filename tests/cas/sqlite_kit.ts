/** @module What tests do to a store in one SQLite file behind its back. */

import { DatabaseSync } from "node:sqlite";
import { type Cid, type Damage, damagedObject, objectName } from "../../lib/cas/mod.ts";

/** Bytes of a chunk, as the provider cuts frames. */
const CHUNK = 512 * 1024;

/** Run `work` on the file at `path`, on a connection of its own. */
export function onFile<T>(path: string, work: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(path, { timeout: 5000 });
  try {
    return work(db);
  } finally {
    db.close();
  }
}

/** Damage the frame of `cid` in the store at `path`, in place. */
export async function damageRows(path: string, cid: Cid, how: Damage): Promise<void> {
  const rows = onFile(path, (db) => {
    const chunks = db.prepare(
      "SELECT bytes FROM chunks WHERE frame = (SELECT frame FROM blobs WHERE name = ?) ORDER BY place",
    );
    return chunks.all(objectName(cid)) as { bytes: Uint8Array<ArrayBuffer> }[];
  });
  const whole = await new Blob(rows.map(({ bytes }) => bytes)).bytes();
  const damaged = damagedObject(whole, how);
  onFile(path, (db) => {
    const { frame } = db.prepare("SELECT frame FROM blobs WHERE name = ?").get(
      objectName(cid),
    ) as { frame: number };
    db.exec("BEGIN IMMEDIATE");
    db.prepare("DELETE FROM chunks WHERE frame = ?").run(frame);
    const insert = db.prepare("INSERT INTO chunks (frame, place, bytes) VALUES (?, ?, ?)");
    for (let at = 0; at < damaged.length; at += CHUNK) {
      insert.run(frame, at / CHUNK, damaged.subarray(at, at + CHUNK));
    }
    db.exec("COMMIT");
  });
}

/** What puts under way, or crashes, have left in the store at `path`. */
export function unfinished(path: string): Promise<string[]> {
  return Promise.resolve(onFile(path, (db) => {
    const uploads = db.prepare("SELECT frame FROM uploads").all();
    const orphans = db.prepare(
      "SELECT DISTINCT frame FROM chunks WHERE frame NOT IN (SELECT frame FROM blobs)",
    ).all();
    return [...uploads, ...orphans].map((row) => String(row["frame"]));
  }));
}
