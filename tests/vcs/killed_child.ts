/** @module A worker that is killed just after it started its Nth call of git. */

import { openDisk, parseCid } from "../../lib/cas/mod.ts";
import { vcsKilledAt } from "./killed_vcs.ts";

const [home = "", store = "", revision = "", blob = "", call = ""] = Deno.args;

const vcs = vcsKilledAt(Number(call));
const cas = await openDisk({ path: store });
const replica = await vcs.replica(`${home}/clones/1`);
const ask = () => Promise.resolve([parseCid(blob)]);
await replica.checkout(revision, `${home}/runs/1/worktree`, { cas, ask });
await replica.discard(`${home}/runs/1/worktree`);
