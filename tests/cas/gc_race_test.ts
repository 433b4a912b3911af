/** @module A collection in another process beside 64 writers, and somebody who refers to what he was told is there. */

import assert from "node:assert/strict";
import { type Cid, openDisk, openSqliteCas } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";

const GRACE_MS = 4_000;
const WRITERS = 64;
const ROUNDS = 30;
const CONTENTS = 1_500;

const content = (index: number) =>
  index % 50 === 0
    ? new Uint8Array(200_000).fill(index % 251).map((byte, at) => at < 4 ? index >> (at * 8) : byte)
    : new TextEncoder().encode(`content ${index}`);

const pick = () => Math.floor(Math.random() * CONTENTS);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const STORES = {
  disk: (path: string) => openDisk({ path, keepEveryMs: 0 }),
  sqlite: (path: string) => openSqliteCas({ path, keepEveryMs: 0 }),
};

for (const [kind, open] of Object.entries(STORES)) {
  Deno.test(`a collection of a ${kind} store beside 64 writers takes nothing that was put or told to be there`, async () => {
    await using scratch = await TempDir.make();
    const path = scratch.join("store");
    const names = scratch.join("names");
    await Deno.writeTextFile(names, "");
    await using cas = await open(path);
    const cids: Cid[] = [];
    for (let at = 0; at < CONTENTS; at++) cids.push(await cas.put(content(at)));
    await pause(GRACE_MS);
    const process = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "tests/cas/gc_process.ts", kind, path, names, String(GRACE_MS)],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const referred = new Set<Cid>();
    let told = 0;
    const refer = (cid: Cid) => {
      Deno.writeTextFileSync(names, `${cid}\n`, { append: true });
      referred.add(cid);
    };
    const writer = async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const index = pick();
        const cid = cids[index] as Cid;
        const before = Date.now();
        const there = round % 3 !== 0 && (await cas.missing([cid])).length === 0;
        if (there) told++;
        else await cas.put(content(index));
        if (Date.now() - before < GRACE_MS / 2) {
          const found = await cas.get(cid);
          // A machine that stood still for that long proves nothing.
          if (Date.now() - before < GRACE_MS - 1_000) assert.deepEqual(found, content(index));
        }
        await pause(Math.random() * 400);
        // Whoever refers to a blob so late that the grace may be over has to ask again.
        if (round % 5 === 0 && Date.now() - before < GRACE_MS / 2) refer(cid);
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, writer));
    await process.stdin.close();
    const { stdout, stderr, success } = await process.output();
    assert.ok(success, new TextDecoder().decode(stderr));
    const { removed } = JSON.parse(new TextDecoder().decode(stdout));
    assert.ok(removed > 0, "nothing was collected");
    assert.ok(referred.size > 0 && told > 0);
    for (const cid of referred) {
      assert.deepEqual(await cas.get(cid), content(cids.indexOf(cid)), `${cid} is lost`);
    }
  });
}
