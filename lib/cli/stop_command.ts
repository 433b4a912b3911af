/** @module `sublet stop` and `sublet restart`. */

import type { Command } from "@commander-js/extra-typings";
import { SubletError } from "../home/mod.ts";
import { Output } from "./output.ts";
import { seconds } from "./parse.ts";

/** These two act on the server of this machine's home alone: throws `usage` where another one is meant. */
export function checkLocal(
  command: string,
  env: Readonly<Record<string, string | undefined>>,
): void {
  const server = env["SUBLET_SERVER"] ?? "";
  if (server === "") return;
  throw new SubletError(
    "usage",
    `\`sublet ${command}\` acts on the server of this home, and SUBLET_SERVER names ${server}: run it on ` +
      "that machine, or unset SUBLET_SERVER",
  );
}

/** Add the commands. */
export function addStop(root: Command): void {
  root.command("stop")
    .description(
      "Stop this home's server. Leases of remote workers go on: they rejoin when it is back.",
    )
    .option("--timeout <seconds>", "how long to wait for it", seconds, 30)
    .action(async (options) => {
      checkLocal("stop", Deno.env.toObject());
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
      checkLocal("restart", Deno.env.toObject());
      const { restartServer } = await import("./serve/mod.ts");
      await restartServer(options.timeout, new Output());
    });
}
