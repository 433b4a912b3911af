/** @module What of a store is live, as far as its home says: its database, and its pins. */

import type { Cid, Finder } from "../cas/mod.ts";
import type { HomePaths } from "../home/mod.ts";
import { expiring, type RetentionDays } from "../job/mod.ts";
import { openSqlite } from "../store/mod.ts";
import { namingRows } from "./cas_named.ts";
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
