/** @module Run by tests in a process of its own: collects what a file does not name, again and again, until stdin ends. */

import { collectGarbage, isCid, openDisk, openSqliteCas } from "../../lib/cas/mod.ts";

const [kind = "", path = "", names = "", grace = ""] = Deno.args;
const cas = kind === "disk"
  ? await openDisk({ path, keepEveryMs: 0 })
  : await openSqliteCas({ path, keepEveryMs: 0 });
let ended = false;
const stdin = (async () => {
  for await (const _ of Deno.stdin.readable);
  ended = true;
})();
let removed = 0;
let rounds = 0;
while (!ended) {
  const report = await collectGarbage(cas, {
    graceMs: Number(grace),
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
