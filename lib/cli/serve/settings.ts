/** @module What a server is started with: the home's config, and `--listen` over it. */

import {
  type Config,
  homeDir,
  type HomePaths,
  homePaths,
  loadConfig,
  makeHome,
  parseAddress,
  SubletError,
} from "../../home/mod.ts";
import { messageOf } from "../../home/mod.ts";
import { HttpsNetwork } from "../../net/mod.ts";

/** A server's settings, judged. */
export interface Settings {
  readonly paths: HomePaths;
  readonly config: Config;
  readonly network: HttpsNetwork;
}

/** Read and judge the settings. Every mistake of the config is one line of the error. */
export async function readSettings(listen: string | undefined): Promise<Settings> {
  const paths = homePaths(homeDir());
  await makeHome(paths.root);
  const config = await loadConfig(paths.root);
  const network = await HttpsNetwork.open({
    ...config.network,
    ...(listen === undefined ? {} : { listen: listenAddress(listen) }),
  });
  return { paths, config, network };
}

/** The address of `--listen`. */
export function listenAddress(text: string): ReturnType<typeof parseAddress> {
  try {
    return parseAddress(text);
  } catch (cause) {
    throw new SubletError("usage", `--listen ${text}: ${messageOf(cause)}`, { cause });
  }
}
