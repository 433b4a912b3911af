/** @module A worker that is killed just after it started its Nth call of git. */

import { openDisk, parseCid } from "../../lib/cas/mod.ts";
import { nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { exec } from "../kit/exec.ts";

const [home = "", store = "", revision = "", blob = "", call = ""] = Deno.args;
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
const cas = await openDisk({ path: store });
const replica = await vcs.replica(`${home}/clones/1`);
const ask = () => Promise.resolve([parseCid(blob)]);
await replica.checkout(revision, `${home}/runs/1/worktree`, { cas, ask });
await replica.discard(`${home}/runs/1/worktree`);
