/** @module Damage in the file of a sqlite store itself: a page of it that was written over. */

import assert from "node:assert/strict";
import { type Cid, inspect, openSqliteCas } from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { noise } from "./bucket_kit.ts";

const PAGE = 4096;

/** First bytes of pages of the trees of tables and indexes. What has others holds content alone. */
const TREE = new Set([2, 5, 10, 13]);

/** A store with blobs of one page and of many, whose file is then left alone. */
async function fill(path: string): Promise<Map<Cid, Uint8Array>> {
  const blobs = new Map<Cid, Uint8Array>();
  await using cas = await openSqliteCas({ path });
  for (let at = 0; at < 200; at++) {
    const data = at % 20 === 0 ? noise(60_000) : new TextEncoder().encode(`blob ${at}`);
    blobs.set(await cas.put(data), data);
  }
  return blobs;
}

interface Found {
  readonly damaged: Cid[];
  readonly mended: number;
}

/** What is found of the store whose file has a damaged page, and what puts mend. */
async function look(path: string, blobs: Map<Cid, Uint8Array>): Promise<Found> {
  await using cas = await openSqliteCas({ path });
  const damaged: Cid[] = [];
  for await (const { cid, state } of inspect(cas)) {
    assert.equal(state, "corrupt");
    damaged.push(cid);
  }
  assert.deepEqual((await Array.fromAsync(cas.list())).sort(), [...blobs.keys()].sort());
  for (const [cid, data] of blobs) {
    if (!damaged.includes(cid)) {
      assert.deepEqual(await cas.get(cid), data);
      continue;
    }
    await assert.rejects(
      cas.get(cid),
      (error) => isError(error, "integrity") && error.message.includes(cid),
    );
  }
  let mended = 0;
  for (const cid of damaged) {
    try {
      await cas.put(blobs.get(cid) ?? new Uint8Array(0));
      assert.deepEqual(await cas.get(cid), blobs.get(cid));
      mended++;
    } catch (error) {
      assert.ok(isError(error, "unavailable", "integrity"), String(error));
      assert.match(String(error), /damaged|recover/);
    }
  }
  return { damaged, mended };
}

Deno.test("a page that was written over damages the blobs on it, which are named, and no others", async () => {
  await using scratch = await TempDir.make();
  const path = scratch.join("store.sqlite");
  const blobs = await fill(path);
  const whole = await Deno.readFile(path);
  const content: Found[] = [];
  const trees: Found[] = [];
  for (let page = 2; page <= whole.length / PAGE; page++) {
    const from = (page - 1) * PAGE;
    const isTree = TREE.has(whole[from] ?? 0);
    if (!isTree && page % 7 !== 0) continue;
    const bytes = whole.slice();
    bytes.set(noise(PAGE), from);
    // Never a page's own kind, by chance.
    bytes[from] = 0xff;
    await Deno.writeFile(path, bytes);
    try {
      (isTree ? trees : content).push(await look(path, blobs));
    } catch (error) {
      // One of the few pages that say what the file is: then it is refused as a whole.
      assert.ok(isTree && isError(error, "unavailable"), String(error));
      assert.ok(error.message.includes(path) && /recover/.test(error.message));
    }
  }
  assert.ok(content.length > 10 && trees.length > 5);
  for (const { damaged, mended } of content) {
    assert.equal(damaged.length, 1);
    assert.equal(mended, 1);
  }
  assert.ok(trees.some(({ damaged }) => damaged.length > 0 && damaged.length < blobs.size));
});

Deno.test("blobs on a damaged page are collected like others", async () => {
  await using scratch = await TempDir.make();
  const path = scratch.join("store.sqlite");
  const blobs = await fill(path);
  const whole = await Deno.readFile(path);
  const page =
    Array.from({ length: whole.length / PAGE }, (_, at) => at).findLast((at) =>
      !TREE.has(whole[at * PAGE] ?? 0)
    ) ?? 0;
  whole.set(noise(PAGE), page * PAGE);
  whole.set([0xff, 0xff, 0xff, 0xff], page * PAGE);
  await Deno.writeFile(path, whole);
  await using cas = await openSqliteCas({ path });
  const gone = await cas.collect([...blobs.keys()], -2000);
  assert.equal(gone.length, blobs.size);
  assert.deepEqual(await Array.fromAsync(cas.list()), []);
  for (const data of blobs.values()) assert.deepEqual(await cas.get(await cas.put(data)), data);
});
