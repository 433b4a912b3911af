/** @module `sublet version`. */

import type { Command } from "@commander-js/extra-typings";
import { Output } from "./output.ts";
import { PROTOCOL, VERSION } from "./version.ts";

/** Add the command. */
export function addVersion(root: Command): void {
  root.command("version")
    .description("Print the version, the worker protocol and the platform.")
    .option("--json", "print one JSON document")
    .action((options) => {
      const output = new Output(options);
      const facts = {
        version: VERSION,
        protocol: PROTOCOL,
        deno: Deno.version.deno,
        target: Deno.build.target,
      };
      if (output.json) output.document(facts);
      else {output.line(
          `sublet ${VERSION} (worker protocol ${PROTOCOL}, deno ${facts.deno}, ${facts.target})`,
        );}
    });
}
