/** @module `sublet serve --check`: whether the server could start, without starting it. */

import { dirname } from "node:path";
import { openTable } from "../home_cas.ts";
import { formatAddress, messageOf, SubletError } from "../../home/mod.ts";
import { agentTables } from "../../job/mod.ts";
import { serveHttp } from "../../net/mod.ts";
import type { Output } from "../output.ts";
import { runningServer } from "../server_lock.ts";
import { readSettings, type Settings } from "./settings.ts";
import { readStart } from "./started.ts";

/** Say that the server can start, or throw what stands in its way. */
export async function checkServe(
  listen: string | undefined,
  output: Pick<Output, "line">,
): Promise<void> {
  const settings = await readSettings(listen);
  agentTables(settings.config, settings.paths.config);
  await openTable(settings.config.cas, settings.paths);
  await checkWritable(settings.paths.root);
  await checkFree(settings);
  output.line("the server can start");
}

/** Throw unless the server could listen, but for where this home's own server does now. */
async function checkFree({ paths, network }: Settings): Promise<void> {
  if (network.listen === null) return;
  const { address } = await readStart(paths);
  const own = await runningServer(paths) !== null && address === formatAddress(network.listen);
  if (own) return;
  const server = await serveHttp({
    fetch: () => new Response(null, { status: 503 }),
    listen: network.listen,
    tls: network.tls,
  });
  await server.shutdown(0);
}

/** Throw unless a file can be made in the home, or in what is there of its path. */
async function checkWritable(root: string): Promise<void> {
  let place = root;
  while (!await Deno.stat(place).then(() => true, () => false)) {
    if (dirname(place) === place) break;
    place = dirname(place);
  }
  try {
    await Deno.remove(await Deno.makeTempFile({ dir: place, prefix: ".sublet-check-" }));
  } catch (error) {
    throw new SubletError(
      "config",
      `the home ${root} cannot be written: ${
        messageOf(error)
      }. Set SUBLET_HOME to a directory of yours`,
      { cause: error },
    );
  }
}
