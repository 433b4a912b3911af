/** @module A worker that is killed just after it started its Nth call of git while it captures work. */

import { openDisk } from "../../lib/cas/mod.ts";
import { vcsKilledAt } from "./killed_vcs.ts";

const [clone = "", store = "", path = "", base = "", call = ""] = Deno.args;

const replica = await vcsKilledAt(Number(call)).replica(clone);
await replica.capture(await openDisk({ path: store }), path, base);
