/** @module Tests of what a collection takes for live in values that are no trees, or none that could be used. */

import assert from "node:assert/strict";
import {
  type Cas,
  type Cid,
  digestOf,
  drislCid,
  type Entry,
  LiveBlobs,
  objectName,
  openMemory,
  putEntries,
} from "../../lib/cas/mod.ts";
import { type Drisl, Link } from "../../lib/cas/drisl.ts";
import { encodeDrisl } from "../../lib/cas/drisl_encode.ts";

async function setup() {
  const cas = openMemory();
  const put = (text: string) => cas.put(new TextEncoder().encode(text));
  const blobs = [await put("one"), await put("two"), await put("three")] as const;
  return { cas, blobs };
}

async function value(cas: Cas, drisl: Drisl): Promise<Cid> {
  return drislCid(digestOf(await cas.put(encodeDrisl(drisl))));
}

/** How many of `blobs` are live when `root` is. */
async function liveOf(
  cas: ReturnType<typeof openMemory>,
  root: Cid,
  blobs: readonly Cid[],
): Promise<number> {
  const held = new Set<string>();
  for await (const cid of cas.list()) held.add(objectName(cid));
  const live = new LiveBlobs(cas, held);
  await live.add(root);
  assert.deepEqual([live.damaged.size, live.lost.size], [0, 0]);
  return blobs.filter((cid) => live.has(objectName(cid))).length;
}

Deno.test("files of a tree are live, by either address of its manifest", async () => {
  const { cas, blobs } = await setup();
  const entries = blobs.map((blob, at): Entry => ({ path: `f${at}`, mode: 0o644, size: 3, blob }));
  const tree = await putEntries(cas, entries);
  const raw = await cas.put(await cas.get(tree) ?? new Uint8Array());
  assert.notEqual(raw, tree);
  for (const cid of [tree, raw]) assert.equal(await liveOf(cas, cid, blobs), 3);
});

Deno.test("what a value names is live where it is no tree, and where nobody could use the tree", async () => {
  const { cas, blobs } = await setup();
  const links = blobs.map((cid) => new Link(cid));
  const entry = (path: string, blob: Link) => ({ path, mode: 0, size: 0, blob });
  const [one, two, three] = links as [Link, Link, Link];
  const nested = await value(cas, { deeper: [three] });
  for (
    const odd of [
      { list: links },
      { entries: [entry("a", one), entry("../b", two), { more: three }] },
      { entries: [entry("b", one), entry("a", two), entry("c", three)] },
      { entries: [entry("a", one)], more: [two, { three }] },
      { entries: [entry("a", one), entry("b", new Link(nested)), entry("c", two)] },
    ]
  ) {
    assert.equal(await liveOf(cas, await value(cas, odd), blobs), 3);
  }
});
