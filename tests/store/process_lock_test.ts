/** @module A process lock is held by one process at a time, and ends with it. */

import assert from "node:assert/strict";
import { ProcessLock } from "../../lib/store/mod.ts";
import { TempDir } from "../kit/mod.ts";

const holder = (path: string) => `
import { ProcessLock } from ${
  JSON.stringify(new URL("../../lib/store/mod.ts", import.meta.url).href)
};
console.log(ProcessLock.tryTake(${JSON.stringify(path)}) === null ? "refused" : "held");
setInterval(() => {}, 1000);
`;

Deno.test("ProcessLock is refused while another process holds it, and free once that one was killed", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("home.lock");
  const config = new URL("../../deno.json", import.meta.url).pathname;
  await Deno.writeTextFile(dir.join("holder.ts"), holder(path));
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--config", config, dir.join("holder.ts")],
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  const first = await reader.read();
  assert.equal(new TextDecoder().decode(first.value).trim(), "held");
  assert.equal(ProcessLock.tryTake(path), null);
  child.kill("SIGKILL");
  await child.status;
  await reader.cancel();
  const lock = ProcessLock.tryTake(path);
  assert.notEqual(lock, null);
  lock?.[Symbol.dispose]();
});

Deno.test("ProcessLock can be taken again after it was disposed of", async () => {
  await using dir = await TempDir.make();
  const first = ProcessLock.tryTake(dir.join("a.lock"));
  first?.[Symbol.dispose]();
  const second = ProcessLock.tryTake(dir.join("a.lock"));
  assert.notEqual(second, null);
  second?.[Symbol.dispose]();
});
