/** @module Tests of the memory provider. */

import assert from "node:assert/strict";
import { checkCas, openMemory } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";

Deno.test("the memory store keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  const cas = openMemory();
  const open = () => Promise.resolve(cas);
  await checkCas(open, { scratch: scratch.path, again: open });
});

Deno.test("the memory store counts, lists and checks what it holds", async () => {
  const cas = openMemory();
  const cids = [await cas.put(new Uint8Array(3)), await cas.put(new Uint8Array(4))];
  assert.deepEqual(await cas.usage(), { blobs: 2, bytes: 7 });
  const listed = [];
  for await (const cid of cas.list()) listed.push(cid);
  assert.deepEqual(listed.sort(), cids.toSorted());
  for (const cid of cids) assert.equal(await cas.integrity(cid), "ok");
});
