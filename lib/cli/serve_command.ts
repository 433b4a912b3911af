/** @module `sublet serve`. */

import type { Command } from "@commander-js/extra-typings";
import { Output } from "./output.ts";

/** Add the command. */
export function addServe(root: Command): void {
  root.command("serve")
    .description("Run this home's server: leases, the HTTP API, and a worker of its own.")
    .option(
      "--listen <host:port>",
      "also listen on TCP; off loopback it needs tls in [plugins.network]",
    )
    .option("--detach", "leave it running in the background, once it answers")
    .option("--check", "only say whether it could start")
    .action(async (options) => {
      const output = new Output();
      const { checkServe, detach, serve } = await import("./serve/mod.ts");
      if (options.check === true) return await checkServe(options.listen, output);
      if (options.detach === true) return await detach(options.listen, output);
      await serve(options.listen, output);
    });
}
