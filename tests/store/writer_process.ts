/** @module A process that tests of the database start, watch and kill. */

import { openSqlite } from "../../lib/store/mod.ts";

const [what = "", path = ""] = Deno.args;
const db = await openSqlite(path, { migrations: false });
if (what === "pair") {
  while (true) await db.write((tx) => tx.run("UPDATE pair SET n = n + 1"));
}
let next = 0;
await Promise.all(Array.from({ length: 8 }, async () => {
  while (true) {
    const half = next++;
    const ids = await db.write(async (tx) => {
      const add = () => tx.get("INSERT INTO t (half) VALUES (?) RETURNING id", [half]);
      return [await add(), await add()];
    });
    const text = ids.map((row) => `${row?.id}\n`).join("");
    Deno.stdout.writeSync(new TextEncoder().encode(text));
  }
}));
