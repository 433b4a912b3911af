/** @module Tests of the disk provider. */

import assert from "node:assert/strict";
import { checkCas, openDisk } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { damageObject, leftovers } from "./disk_kit.ts";

Deno.test("the disk store keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  const root = scratch.join("store");
  await checkCas(() => openDisk({ path: root }), {
    scratch: scratch.path,
    damage: (cid, how) => damageObject(root, cid, how),
    leftovers: () => leftovers(root),
  });
  assert.deepEqual(await leftovers(root), []);
});
