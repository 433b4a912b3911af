/** @module What of a store is live, as far as its home says: its database, its pins, and its reports that wait. */

import { join } from "node:path";
import type { Cid, Finder } from "../cas/mod.ts";
import type { HomePaths } from "../home/mod.ts";
import { expiring, type RetentionDays } from "../job/mod.ts";
import { openSqlite } from "../store/mod.ts";
import { cidsOf, namingRows } from "./cas_named.ts";
import { Pins } from "./cas_pins.ts";

/** What a home says of the blobs that it needs. */
export interface HomeNeeds extends AsyncDisposable {
  readonly find: Finder;
  /** Whether the home is known to have work of its own: if not, whoever uses its store is not known here. */
  readonly works: boolean;
}

/** Look into the database and the pins of the home at `paths`. Both may be missing. `days`: how long what is kept. */
export async function openHomeNeeds(paths: HomePaths, days: RetentionDays): Promise<HomeNeeds> {
  const pins = new Pins(paths.root);
  const there = await Deno.stat(paths.db).then((info) => info.isFile, (error) => {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  });
  const db = there ? await openSqlite(paths.db, { migrations: false }) : null;
  const named = async (): Promise<Set<Cid>> => {
    const found = new Set<Cid>();
    // In one transaction: what moves from one row to another meanwhile is in either.
    await db?.read(async (tx) => {
      for await (const { cids } of namingRows(tx, expiring(days, Date.now()))) {
        for (const cid of cids) {
          found.add(cid);
        }
      }
    });
    return found;
  };
  try {
    return {
      works: (await named()).size > 0,
      async find(found) {
        for (const cid of await named()) await found(cid);
        for (const { cid } of await pins.list()) await found(cid);
        // Reports of this home's worker that no server has taken yet.
        for await (const text of textsIn(paths.spool)) {
          for (const cid of cidsOf(text)) await found(cid);
        }
      },
      async [Symbol.asyncDispose]() {
        await db?.[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await db?.[Symbol.asyncDispose]();
    throw error;
  }
}

/** The texts of the files beneath `directory`, which may be missing, and whose files may go meanwhile. */
async function* textsIn(directory: string): AsyncGenerator<string> {
  try {
    for await (const { name, isDirectory, isFile } of Deno.readDir(directory)) {
      const path = join(directory, name);
      if (isDirectory) yield* textsIn(path);
      if (!isFile) continue;
      const text = await Deno.readTextFile(path).catch(ignoreAbsence);
      if (text !== undefined) yield text;
    }
  } catch (error) {
    ignoreAbsence(error);
  }
}

function ignoreAbsence(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
