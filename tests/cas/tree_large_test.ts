/** @module Tests of trees whose manifest is not held in memory, and of what goes wrong while they are read and placed. */

import assert from "node:assert/strict";
import {
  type Cid,
  digestOf,
  drislCid,
  encodeManifest,
  type Entry,
  Manifests,
  materialise,
  openMemory,
  putEntries,
  SharedInputs,
  type Tree,
} from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";

/** Some batches, so that there is a boundary within. */
const COUNT = 3_000;

const pathOf = (at: number) => `d${at % 7}/${String(at).padStart(5, "0")}`;

async function setup(count = COUNT) {
  const dir = await TempDir.make();
  const cas = openMemory();
  const texts = ["zero", "one", "two"];
  const blobs = await Promise.all(texts.map((text) => cas.put(new TextEncoder().encode(text))));
  const entries = Array.from({ length: count }, (_, at): Entry => {
    if (at % 10 === 0) return { path: pathOf(at), mode: 0o777, size: 0, link: "../elsewhere" };
    const [blob, text] = [blobs[at % 3] as Cid, texts[at % 3] ?? ""];
    return { path: pathOf(at), mode: 0o644, size: text.length, blob };
  }).sort((a, b) => a.path < b.path ? -1 : 1);
  const cid = await putEntries(cas, entries);
  await Deno.mkdir(dir.join("checkout"));
  const shared = new SharedInputs(cas, dir.join("inputs"));
  const manifests = new Manifests(cas, { shared, large: 100 });
  const put = async (tree: Tree, path = "data", root = "checkout") =>
    await materialise(tree, dir.join(root), path, shared);
  const file = dir.join("inputs", `${cid}.400`);
  return { dir, cas, blobs, entries, cid, shared, manifests, put, file };
}

async function entriesOf(tree: Tree): Promise<Entry[]> {
  return (await Array.fromAsync(tree.batches())).flat();
}

Deno.test("a large tree is placed whole, and every change of it is found", async () => {
  const { dir, entries, cid, manifests, put } = await setup();
  await using _ = dir;
  const tree = await manifests.open(cid);
  assert.deepEqual(tree.summary, {
    count: COUNT,
    links: COUNT / 10,
    first: entries[0]?.path,
    last: entries.at(-1)?.path,
  });
  assert.deepEqual(await entriesOf(tree), entries);
  const placed = await put(tree);
  assert.equal(placed.files, COUNT);
  assert.equal(await Deno.readTextFile(dir.join("checkout/data", pathOf(2_999))), "two");
  assert.equal(await Deno.readLink(dir.join("checkout/data", pathOf(2_990))), "../elsewhere");
  assert.deepEqual(await Array.fromAsync(placed.changes()), []);
  const changed = [1, 1_500, 2_000, 2_999].map((at) => `data/${pathOf(at)}`).sort();
  for (const path of changed) await Deno.remove(dir.join("checkout", path));
  const link = dir.join("checkout/data", pathOf(1_500));
  await Deno.symlink("another", link);
  const found = await Array.fromAsync(placed.changes());
  assert.deepEqual(found.map(({ path }) => path), changed);
});

Deno.test("a large manifest is read from its store once, and its file stays while the tree is in use", async () => {
  const { dir, cas, cid, shared, manifests, put } = await setup();
  await using _ = dir;
  const placed = await put(await manifests.open(cid));
  await cas.release(cid);
  assert.equal(await shared.evict(1e9), 0);
  assert.deepEqual(await Array.fromAsync(placed.changes()), []);
  const again = await put(await manifests.open(cid), "again");
  assert.equal(again.files, COUNT);
});

Deno.test("a manifest's file that somebody altered is made again, or what is read of it is refused", async () => {
  const { dir, entries, cid, manifests, put, file } = await setup();
  await using _ = dir;
  const tree = await manifests.open(cid);
  const { mtime } = await Deno.stat(file);
  const bytes = await Deno.readFile(file);
  const alter = async (bytes: Uint8Array) => {
    await Deno.chmod(file, 0o600);
    await Deno.writeFile(file, bytes);
    await Deno.chmod(file, 0o400);
  };
  await alter(bytes.subarray(0, 5_000));
  assert.deepEqual(await entriesOf(tree), entries);
  // In a way that does not show: another valid manifest, of the same length, with the times as they were.
  const other = encodeManifest(entries.map((entry) => ({ ...entry, mode: entry.mode ^ 1 })));
  assert.equal(other.length, bytes.length);
  await alter(other);
  await Deno.utime(file, mtime ?? 0, mtime ?? 0);
  await assert.rejects(entriesOf(tree), (error) => isError(error, "integrity"));
  await assert.rejects(put(tree), (error) => isError(error, "integrity"));
});

for (const large of [100, 1e6]) {
  Deno.test(`a manifest that is damaged at its end makes nothing, with ${large} entries in memory`, async () => {
    const { dir, cas, entries, shared } = await setup();
    await using _ = dir;
    const manifests = new Manifests(cas, { shared, large });
    const good = encodeManifest(entries);
    const bad: Uint8Array[] = [
      good.subarray(0, good.length - 1),
      new Uint8Array([...good, 0]),
      encodeManifest([...entries, { path: "z", mode: 0o777, size: 0, link: "x" }]),
    ];
    // Its last entry repeats the one before.
    bad[2]?.set(new TextEncoder().encode("d"), (bad[2]?.length ?? 0) - 8);
    for (const bytes of bad) {
      const cid = drislCid(digestOf(await cas.put(bytes)));
      await assert.rejects(manifests.open(cid), (error) => isError(error, "integrity"));
    }
    assert.deepEqual([...Deno.readDirSync(dir.join("checkout"))], []);
  });
}

Deno.test("what an attempt placed that failed is checked as well, once another one went well", async () => {
  const { dir, cas, blobs, cid, manifests, put } = await setup();
  await using _ = dir;
  const tree = await manifests.open(cid);
  const lost = blobs[2] as Cid;
  const bytes = await cas.get(lost);
  await cas.release(lost);
  await assert.rejects(put(tree), (error) => isError(error, "not_found"));
  await cas.put(bytes ?? new Uint8Array());
  const placed = await put(tree);
  assert.equal(placed.files, COUNT);
  await Deno.remove(dir.join("checkout/data", pathOf(1)));
  assert.equal((await Array.fromAsync(placed.changes())).length, 1);
});

Deno.test("a tree that is cancelled ends, and the next attempt completes it", async () => {
  const { dir, cid, shared, manifests, put } = await setup();
  await using _ = dir;
  const tree = await manifests.open(cid);
  const reason = new Error("stopped");
  const signal = AbortSignal.abort(reason);
  await assert.rejects(
    materialise(tree, dir.join("checkout"), "data", shared, { signal }),
    reason,
  );
  assert.equal((await put(tree)).files, COUNT);
});

Deno.test("manifests in memory make room for others, and are read again", async () => {
  const { cas, dir } = await setup(1);
  await using _ = dir;
  const manifests = new Manifests(cas, { large: 100, most: 5 });
  const cids: Cid[] = [];
  for (const name of ["a", "b", "c"]) {
    const entries = [0, 1].map((at): Entry => ({ path: name + at, mode: 0, size: 0, link: "x" }));
    cids.push(await putEntries(cas, entries));
  }
  const [a, b, c] = cids as [Cid, Cid, Cid];
  for (const cid of [a, b, a, c]) await manifests.open(cid);
  for (const cid of cids) await cas.release(cid);
  await manifests.open(a);
  await manifests.open(c);
  await assert.rejects(manifests.open(b), (error) => isError(error, "not_found"));
});
