/** @module A worker that is killed just after it started its Nth call of git while it captures work. */

import { openDisk } from "../../lib/cas/mod.ts";
import { nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { exec } from "../kit/exec.ts";

const [clone = "", store = "", path = "", base = "", call = ""] = Deno.args;
let left = Number(call);

const vcs = new GitVcs({
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
const replica = await vcs.replica(clone);
await replica.capture(await openDisk({ path: store }), path, base);
