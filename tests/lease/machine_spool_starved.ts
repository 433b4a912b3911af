/** @module Reads the spool beneath the home `argv[0]` with ever fewer files to open, and prints what came of it. */

import { FileSpool } from "../../lib/lease/machine/spool_files.ts";

const [home = ""] = Deno.args;
const events: string[] = [];
const spool = new FileSpool(home, { event: (event) => void events.push(event) });
await spool.load("desk");
const open: Deno.FsFile[] = [];
try {
  while (true) open.push(await Deno.open("/dev/null"));
} catch {
  // Now there are none left.
}
const came: string[] = [];
for (let free = 0; free < 12; free++) {
  try {
    came.push((await spool.load("desk")).map(({ lease }) => lease).join());
  } catch {
    came.push("refused");
  }
  open.pop()?.close();
}
for (const file of open) file.close();
console.log(JSON.stringify({ came: [...new Set(came)].sort(), events }));
