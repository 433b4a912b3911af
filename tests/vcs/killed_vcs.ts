/** @module Git that kills its process in the middle of its work, for children of tests. */

import { nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { exec } from "../kit/exec.ts";

/** A VCS whose process is killed just after it started its call of git number `call`. */
export function vcsKilledAt(call: number): GitVcs {
  let left = call;
  return new GitVcs({
    processes: {
      exec(spec) {
        const result = exec(spec);
        if (--left === 0) Deno.kill(Deno.pid, "SIGKILL");
        return result;
      },
    },
    clock: systemClock,
    ids: systemIds,
    log: nullLog,
  });
}
