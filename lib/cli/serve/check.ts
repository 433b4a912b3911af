/** @module `sublet serve --check`: whether the server could start, without starting it. */

import { dirname } from "node:path";
import { openTable } from "../home_cas.ts";
import { messageOf, SubletError } from "../../home/mod.ts";
import { agentTables } from "../../job/mod.ts";
import type { Output } from "../output.ts";
import { readSettings } from "./settings.ts";

/** Say that the server can start, or throw what stands in its way. */
export async function checkServe(
  listen: string | undefined,
  output: Pick<Output, "line">,
): Promise<void> {
  const settings = await readSettings(listen);
  agentTables(settings.config, settings.paths.config);
  await openTable(settings.config.cas, settings.paths);
  await checkWritable(settings.paths.root);
  output.line("the server can start");
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
