/** @module Tests of the stat index, and of trees that are written as files of their own. */

import assert from "node:assert/strict";
import {
  type Cas,
  cidOf,
  digestOf,
  drislCid,
  encodeManifest,
  openMemory,
  placeTree,
  putManifest,
  readManifest,
  type Seen,
  SeenAnywhere,
  StatIndex,
  storeTree,
} from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";

/** A store that notes the texts of the files that are put into it. */
function counted(): { cas: Cas; read: string[] } {
  const cas = openMemory();
  const read: string[] = [];
  const { put } = cas;
  cas.put = (data, limits) => {
    read.push(new TextDecoder().decode(data));
    return put.call(cas, data, limits);
  };
  return { cas, read };
}

const OLD = 1_000_000;

/** Wait until times of change, which are told by the second, are old enough to be trusted. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 3_200));

Deno.test("an unchanged file is not read again by the next process, a changed one is, whatever its time", async () => {
  await using dir = await TempDir.make();
  const { cas, read } = counted();
  await Deno.mkdir(dir.join("tree/d"), { recursive: true });
  for (const name of ["a", "b", "d/c"]) {
    await Deno.writeTextFile(dir.join("tree", name), `first ${name}`);
    await Deno.utime(dir.join("tree", name), OLD, OLD);
  }
  const store = async () => {
    await using seen = await StatIndex.open(dir.join("seen.sqlite"));
    read.length = 0;
    return await storeTree(cas, dir.join("tree"), { seen });
  };
  await store();
  // They had changed just before, so they are read once more.
  await settle();
  await store();
  assert.equal(read.length, 3);
  const { manifest } = await store();
  assert.equal(read.length, 0);
  // The same length and the same time as before.
  await Deno.writeTextFile(dir.join("tree/b"), "other b");
  await Deno.utime(dir.join("tree/b"), OLD, OLD);
  const changed = await store();
  assert.deepEqual(read, ["other b"]);
  assert.notEqual(changed.manifest, manifest);
  const entry = (await readManifest(cas, changed.manifest)).entries[1];
  assert.ok(entry !== undefined && "blob" in entry);
  assert.equal(entry.blob, cidOf(new TextEncoder().encode("other b")));
  // What the store lost is read again.
  await (cas as ReturnType<typeof openMemory>).release(entry.blob);
  await settle();
  await store();
  assert.ok(read.includes("other b"));
});

Deno.test("what this process read counts at once, what another one did when it is old enough", async () => {
  await using dir = await TempDir.make();
  const { cas, read } = counted();
  await Deno.mkdir(dir.join("tree"));
  for (const name of ["a", "b", "c"]) await Deno.writeTextFile(dir.join("tree", name), name);
  for (const name of ["a", "c"]) await Deno.utime(dir.join("tree", name), OLD, OLD);
  await settle();
  const reads = async (seen: Seen) => {
    read.length = 0;
    await storeTree(cas, dir.join("tree"), { seen });
    return read.map((path) => path.slice(-1)).sort().join("");
  };
  await using index = await StatIndex.open(dir.join("seen.sqlite"));
  assert.equal(await reads(new SeenAnywhere(index)), "abc");
  const next = new SeenAnywhere(index);
  assert.equal(await reads(next), "");
  await Deno.writeTextFile(dir.join("tree/b"), "new b");
  await Deno.utime(dir.join("tree/b"), OLD, OLD);
  assert.equal(await reads(next), "b");
  assert.equal(await reads(next), "");
  assert.equal(await reads(new SeenAnywhere(index)), "b");
});

Deno.test("an index that is damaged is made anew", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(
    dir.join("seen.sqlite"),
    "no database at all, and long enough to tell".repeat(50),
  );
  await Deno.mkdir(dir.join("tree"));
  await Deno.writeTextFile(dir.join("tree/a"), "a");
  await using seen = await StatIndex.open(dir.join("seen.sqlite"));
  assert.equal((await storeTree(openMemory(), dir.join("tree"), { seen })).files, 1);
});

Deno.test("names sort in a manifest as paths do, also beneath directories", async () => {
  await using dir = await TempDir.make();
  for (const path of ["a/x", "a-b", "a0", "ab/c/d", "ab-", "\u{10000}", "\uffee"]) {
    const parent = dir.join("tree", path.split("/").slice(0, -1).join("/"));
    await Deno.mkdir(parent, { recursive: true });
    await Deno.writeTextFile(dir.join("tree", path), path);
  }
  const cas = openMemory();
  const { manifest, files } = await storeTree(cas, dir.join("tree"));
  assert.equal(files, 7);
  const { entries } = await readManifest(cas, manifest);
  assert.equal(manifest, drislCid(digestOf(await cas.put(encodeManifest([...entries].reverse())))));
});

Deno.test("a tree is written as files of its own, which may be changed", async () => {
  await using dir = await TempDir.make();
  const cas = openMemory();
  await Deno.mkdir(dir.join("tree/d/e"), { recursive: true });
  await Deno.writeTextFile(dir.join("tree/run"), "#!/bin/sh", { mode: 0o755 });
  await Deno.writeTextFile(dir.join("tree/d/e/data"), "1,2,3", { mode: 0o640 });
  await Deno.symlink("../../etc/passwd", dir.join("tree/d/link"));
  const seen: number[] = [];
  const { manifest } = await storeTree(cas, dir.join("tree"), {
    times: true,
    progress: (files) => seen.push(files),
  });
  assert.deepEqual(seen.toSorted(), [1, 2, 3]);
  const placed = await placeTree(cas, manifest, dir.join("copy"));
  assert.deepEqual(placed, { files: 3, bytes: 14 });
  const again = (await storeTree(cas, dir.join("copy"), { times: true })).manifest;
  const files = async (cid: typeof manifest) =>
    (await readManifest(cas, cid)).entries.filter((entry) => "blob" in entry);
  assert.deepEqual(await files(again), await files(manifest));
  assert.equal(await Deno.readLink(dir.join("copy/d/link")), "../../etc/passwd");
  await Deno.writeTextFile(dir.join("copy/d/e/data"), "changed");
  assert.equal(await Deno.readTextFile(dir.join("tree/d/e/data")), "1,2,3");
  await assert.rejects(
    placeTree(cas, manifest, dir.join("copy")),
    (error) => isError(error, "conflict"),
  );
});

Deno.test("a tree whose link stands in the way of its files is refused before anything is made", async () => {
  await using dir = await TempDir.make();
  const cas = openMemory();
  const blob = await cas.put(new TextEncoder().encode("escaped"));
  await assert.rejects(putManifest(cas, [
    { path: "d", mode: 0o777, size: 0, link: dir.path },
    { path: "d/f", mode: 0o644, size: 7, blob },
  ]));
  const lacking = cidOf(new Uint8Array([1, 2, 3]));
  const manifest = await putManifest(cas, [{ path: "f", mode: 0o644, size: 3, blob: lacking }]);
  await assert.rejects(
    placeTree(cas, manifest, dir.join("copy")),
    (error) => isError(error, "not_found") && error.message.includes(lacking),
  );
  const wrong = await putManifest(cas, [{ path: "f", mode: 0o644, size: 3, blob }]);
  await assert.rejects(
    placeTree(cas, wrong, dir.join("other")),
    (error) => isError(error, "integrity"),
  );
});
