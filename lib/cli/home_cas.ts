/** @module The store that this home's `[plugins.cas]` names. */

import { type Cas, openCas, whereIs } from "../cas/mod.ts";
import { type Config, loadConfig } from "../home/config/mod.ts";
import { homeDir, type HomePaths, homePaths, makeHome } from "../home/mod.ts";
import { credentialFromEnv, openHttpClient } from "../net/mod.ts";

/** The opened store. */
export interface HomeCas extends AsyncDisposable {
  readonly cas: Cas;
  readonly provider: string;
  /** One spelling of where its blobs are. */
  readonly where: string;
  /** The home's database file, which may not be there. */
  readonly database: string;
  /** The index of files that were stored before, which may not be there. */
  readonly seen: string;
  /** A directory for temporary files. */
  readonly tmp: string;
  /** How long what ended work left is kept. */
  readonly retention: { readonly sessions: number | null; readonly files: number | null };
}

/** Open the store that a home's `[plugins.cas]` names. An `http` store is dialed with this machine's credential. */
export async function openTable(
  table: Config["cas"],
  paths: HomePaths,
  env: Record<string, string> = Deno.env.toObject(),
  sweeps = true,
): Promise<Cas> {
  return await openCas(table, {
    home: paths.root,
    tmp: paths.tmp,
    sweeps,
    client: (url: string) => openHttpClient({ server: url, token: credentialFromEnv(env), env }),
  });
}

/** Open the store of the home that `env` names. `sweeps`: whether what crashes left goes now. */
export async function openHomeCas(
  env: Record<string, string> = Deno.env.toObject(),
  sweeps = true,
): Promise<HomeCas> {
  const paths = homePaths(homeDir(env));
  await makeHome(paths.root);
  const { cas: table, storage } = await loadConfig(paths.root, env);
  const cas = await openTable(table, paths, env, sweeps);
  const where = whereIs(table, paths.root);
  return {
    cas,
    provider: table.provider,
    where,
    database: paths.db,
    seen: paths.seen,
    tmp: paths.tmp,
    retention: { sessions: storage.sessionsDays, files: storage.filesDays },
    async [Symbol.asyncDispose]() {
      if (Symbol.asyncDispose in cas) {
        await (cas as unknown as AsyncDisposable)[Symbol.asyncDispose]();
      }
    },
  };
}
