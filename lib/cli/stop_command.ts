/** @module `sublet stop`. */

import type { Command } from "@commander-js/extra-typings";
import { EXIT, homeDir, homePaths, SubletError } from "../home/mod.ts";
import { Finished } from "./finished.ts";
import { Output } from "./output.ts";
import { seconds } from "./parse.ts";

/** Add the command. */
export function addStop(root: Command): void {
  root.command("stop")
    .description(
      "Stop this home's server. Leases of remote workers go on: they rejoin when it is back.",
    )
    .option("--timeout <seconds>", "how long to wait for it", seconds, 30)
    .action(async (options) => {
      const { runningServer } = await import("./server_lock.ts");
      const output = new Output();
      const paths = homePaths(homeDir());
      const pid = await runningServer(paths);
      if (pid === null) throw new SubletError("not_found", `no server is running in ${paths.root}`);
      Deno.kill(pid, "SIGTERM");
      const deadline = performance.now() + options.timeout * 1000;
      while (await runningServer(paths) === pid) {
        if (performance.now() > deadline) {
          output.note(
            `server ${pid} still runs after ${options.timeout} s: \`sublet stop --timeout 60\`, or kill it`,
          );
          throw new Finished(EXIT.failed);
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      output.note(`server ${pid} stopped`);
    });
}
