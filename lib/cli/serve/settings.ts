/** @module What a server is started with: the home's config, and `--listen` over it. */

import { type Config, loadConfig } from "../../home/config/mod.ts";
import { homeDir, type HomePaths, homePaths, makeHome } from "../../home/mod.ts";
import { HttpsNetwork } from "../../net/mod.ts";

/** A server's settings, judged. */
export interface Settings {
  readonly paths: HomePaths;
  readonly config: Config;
  readonly network: HttpsNetwork;
}

/** Read and judge the settings. Every mistake of the config, `--listen` included, is one line of the error. */
export async function readSettings(listen: string | undefined): Promise<Settings> {
  const paths = homePaths(homeDir());
  await makeHome(paths.root);
  const env = Deno.env.toObject();
  const config = await loadConfig(paths.root, env, listen === undefined ? {} : { listen });
  return { paths, config, network: await HttpsNetwork.open(config.network) };
}
