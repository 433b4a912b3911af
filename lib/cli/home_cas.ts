/** @module The store that this home's `[plugins.cas]` names. */

import { type Cas, openCas } from "../cas/mod.ts";
import { loadConfig } from "../home/config/mod.ts";
import { homeDir, homePaths, makeHome } from "../home/mod.ts";
import { credentialFromEnv, openHttpClient } from "../net/mod.ts";

/** The opened store. */
export interface HomeCas extends AsyncDisposable {
  readonly cas: Cas;
  readonly provider: string;
  /** One spelling of where its blobs are. */
  readonly where: string;
}

/** Open the store of the home that `env` names. An `http` store is dialed with this machine's credential. */
export async function openHomeCas(
  env: Record<string, string> = Deno.env.toObject(),
): Promise<HomeCas> {
  const paths = homePaths(homeDir(env));
  await makeHome(paths.root);
  const { cas: table } = await loadConfig(paths.root, env);
  const cas = await openCas(table, {
    home: paths.root,
    tmp: paths.tmp,
    client: (url: string) => openHttpClient({ server: url, token: credentialFromEnv(env), env }),
  });
  const where = typeof table["url"] === "string"
    ? table["url"]
    : `file://${table["path"] ?? paths.store}`;
  return {
    cas,
    provider: table.provider,
    where,
    async [Symbol.asyncDispose]() {
      if (Symbol.asyncDispose in cas) {
        await (cas as unknown as AsyncDisposable)[Symbol.asyncDispose]();
      }
    },
  };
}
