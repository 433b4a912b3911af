/** @module The secrets of this home, for a command that works without a server. */

import { loadConfig } from "../home/config/mod.ts";
import { homeDir, homePaths, makeHome, nullLog, systemClock } from "../home/mod.ts";
import { SecretBook } from "../job/mod.ts";
import { openSecrets } from "../secret/mod.ts";
import { openSqlite } from "../store/mod.ts";

/** The opened secrets. */
export interface HomeSecrets extends AsyncDisposable {
  readonly book: SecretBook;
}

/** Open (and on first use make) the secrets of the home that the environment names. */
export async function openHomeSecrets(): Promise<HomeSecrets> {
  const env = Deno.env.toObject();
  const paths = homePaths(homeDir(env));
  await makeHome(paths.root);
  const { secrets: table } = await loadConfig(paths.root, env);
  const secrets = await openSecrets(table, { home: paths.root, clock: systemClock });
  const db = await openSqlite(paths.db);
  return {
    book: new SecretBook(db, secrets, nullLog),
    [Symbol.asyncDispose]: () => db[Symbol.asyncDispose](),
  };
}
