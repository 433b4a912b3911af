/** @module Stores whose process is killed while it puts 2,000 blobs: nothing partial is seen, and nothing acknowledged is lost. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { cidOf } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { CRASH_STORES, crashBlob, type CrashStore } from "./crash_kit.ts";

/** Blobs in all, and after how many acknowledged ones a process is killed. */
const BLOBS = 2000;
const KILLS = [1, 60, 700];

/** Put blobs `from` up to and without `to` in a process, killed after `count` are acknowledged; those that were. */
async function putAndKill(
  store: string,
  root: string,
  from: number,
  to: number,
  count: number,
): Promise<number[]> {
  const script = new URL("./crash_process.ts", import.meta.url).pathname;
  const process = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, store, root, String(from), String(to)],
    stdout: "piped",
  }).spawn();
  let text = "";
  for await (const part of process.stdout.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.split("\n").length > count) {
      try {
        process.kill("SIGKILL");
      } catch {
        // It has ended already, or was killed before.
      }
    }
  }
  await process.status;
  return text.split("\n").slice(0, -1).map(Number);
}

async function check(subject: CrashStore, root: string, acked: ReadonlySet<number>): Promise<void> {
  for (const store of await subject.look(root)) {
    for await (const cid of store.list()) assert.equal(await store.integrity(cid), "ok", cid);
    for (const index of acked) {
      const data = crashBlob(index);
      const found = await store.get(cidOf(data));
      assert.ok(found !== null && Buffer.compare(found, data) === 0, `blob ${index}`);
    }
    await store[Symbol.asyncDispose]?.();
  }
  assert.deepEqual(await subject.leftovers(root), []);
}

for (const [name, subject] of Object.entries(CRASH_STORES)) {
  Deno.test(`a ${name} store that is killed again and again in ${BLOBS} puts is right each time`, async () => {
    await using root = await TempDir.make();
    const acked = new Set<number>();
    let from = 0;
    for (const count of [...KILLS, Infinity]) {
      const more = await putAndKill(name, root.path, from, BLOBS, count);
      assert.ok(more.length >= Math.min(count, BLOBS - from), `${more.length} were acknowledged`);
      if (count !== Infinity) assert.ok(more.length < BLOBS - from, "it was killed midway");
      for (const index of more) acked.add(index);
      await check(subject, root.path, acked);
      // The next process puts again what this one may have begun.
      while (acked.has(from)) from++;
    }
    assert.equal(acked.size, BLOBS);
  });
}
