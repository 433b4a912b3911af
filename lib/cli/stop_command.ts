/** @module `sublet stop` and `sublet restart`. */

import type { Command } from "@commander-js/extra-typings";
import { Output } from "./output.ts";
import { seconds } from "./parse.ts";

/** Add the commands. */
export function addStop(root: Command): void {
  root.command("stop")
    .description(
      "Stop this home's server. Leases of remote workers go on: they rejoin when it is back.",
    )
    .option("--timeout <seconds>", "how long to wait for it", seconds, 30)
    .action(async (options) => {
      const { stopServer } = await import("./serve/mod.ts");
      await stopServer(options.timeout, new Output());
    });
  root.command("restart")
    .description(
      "Stop this home's server and start it in the background where it listened. " +
        "One that could not start again is not stopped.",
    )
    .option("--timeout <seconds>", "how long to wait for it to stop", seconds, 30)
    .action(async (options) => {
      const { restartServer } = await import("./serve/mod.ts");
      await restartServer(options.timeout, new Output());
    });
}
