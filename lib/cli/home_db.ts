/** @module The home's database, for a command that works without a server. */

import { homeDir, homePaths, makeHome, systemClock } from "../home/mod.ts";
import { Tokens } from "../net/mod.ts";
import { type Db, openSqlite } from "../store/mod.ts";

/** The opened database of this home, and its tokens. */
export interface HomeDb extends AsyncDisposable {
  readonly db: Db;
  readonly tokens: Tokens;
}

/** Open (and on first use make) the database of the home that the environment names. */
export async function openHomeDb(): Promise<HomeDb> {
  const paths = homePaths(homeDir());
  await makeHome(paths.root);
  const db = await openSqlite(paths.db);
  return {
    db,
    tokens: new Tokens(db, systemClock),
    [Symbol.asyncDispose]: () => db[Symbol.asyncDispose](),
  };
}
