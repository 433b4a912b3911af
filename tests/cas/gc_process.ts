/** @module Run by tests in a process of its own: collects what a file does not name, again and again, until stdin ends. */

import { collectGarbage, isCid } from "../../lib/cas/mod.ts";
import { graceOf, STORES } from "./gc_stores.ts";

const [kind = "", path = "", url = "", names = "", grace = ""] = Deno.args;
const cas = await STORES[kind]?.(path, url);
if (cas === undefined) throw new Error(`there is no store ${kind}`);
let ended = false;
const stdin = (async () => {
  for await (const _ of Deno.stdin.readable);
  ended = true;
})();
let removed = 0;
let rounds = 0;
while (!ended) {
  const report = await collectGarbage(cas, {
    graceMs: graceOf(kind, Number(grace)),
    remarkMs: 0,
    async find(found) {
      const text = await Deno.readTextFile(names);
      for (const line of text.split("\n")) if (isCid(line)) await found(line);
    },
  });
  removed += report.removed;
  rounds++;
}
await stdin;
await cas[Symbol.asyncDispose]();
console.log(JSON.stringify({ removed, rounds }));
