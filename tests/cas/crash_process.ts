/** @module Run by tests in a process of its own: puts blobs into a store, and says which were acknowledged, until it is killed. */

import { CRASH_STORES, crashBlob } from "./crash_kit.ts";

const [store = "", root = "", from = "", to = ""] = Deno.args;
const open = CRASH_STORES[store]?.open;
if (open === undefined) throw new Error(`no store ${store}`);
const cas = await open(root);
let next = Number(from);

async function lane(): Promise<void> {
  while (next < Number(to)) {
    const index = next++;
    const data = crashBlob(index);
    // Each way in turn.
    if (index % 3 === 0) await cas.put(data);
    else await cas.putStream(new Blob([data]).stream());
    // In one write, so that a line is there whole or not at all.
    Deno.stdout.writeSync(new TextEncoder().encode(`${index}\n`));
  }
}

await Promise.all(Array.from({ length: 16 }, lane));
