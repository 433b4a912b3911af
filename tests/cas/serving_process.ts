/** @module Run by tests in a process of its own: serves a store of `crash_kit.ts`, and says where, until it is killed. */

import { CRASH_STORES } from "./crash_kit.ts";
import { serveStore } from "./http_kit.ts";

const [store = "", root = "", tmp = ""] = Deno.args;
const open = CRASH_STORES[store]?.open;
if (open === undefined) throw new Error(`no store ${store}`);
const served = await serveStore(await open(root), tmp);
console.log(served.url);
