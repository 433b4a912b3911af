/** @module Tests of what a store gets, and what is read, when trees have parts in common. */

import assert from "node:assert/strict";
import { type DiskStore, openDisk, StatIndex, storeTree } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";

const OLD = 1_000_000;

/** Files that have not changed for long, so that the index trusts them once their time of change is old, too. */
async function write(root: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    const at = `${root}/${path}`;
    await Deno.mkdir(at.slice(0, at.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(at, text);
    await Deno.utime(at, OLD, OLD);
  }
}

async function* filesBeneath(root: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(root)) {
    if (isDirectory) yield* filesBeneath(`${root}/${name}`);
    else yield `${root}/${name}`;
  }
}

/** Every file of the store, and when it was written. */
async function contentOf(root: string): Promise<string[]> {
  const found: string[] = [];
  for await (const path of filesBeneath(root)) {
    // Whoever looks whether a blob is there takes it.
    if (path.endsWith("/gc.lock")) continue;
    const { ino, size, mtime } = await Deno.lstat(path);
    found.push(`${path} ${ino} ${size} ${mtime?.getTime()}`);
  }
  return found.sort();
}

async function setup() {
  const dir = await TempDir.make();
  const root = dir.join("store");
  /** Store `tree` as another process would; its address, how many files were read, and the store's blobs. */
  const put = async (tree: string) => {
    await using cas: DiskStore = await openDisk({ path: root });
    await using seen = await StatIndex.open(dir.join("seen.sqlite"));
    let read = 0;
    const { put } = cas;
    cas.put = (data, limits) => {
      // The manifest, which starts so, was not read from the tree.
      if (data[0] !== 0xa1) read++;
      return put.call(cas, data, limits);
    };
    const { manifest } = await storeTree(cas, dir.join(tree), { seen, tmp: dir.path });
    const blobs = await Array.fromAsync(cas.list());
    return { manifest, read, blobs: blobs.length };
  };
  return { dir, root, put };
}

/** Wait until times of change, which are told by the second, are old enough to be trusted. */
const settle = () => new Promise((resolve) => setTimeout(resolve, 3_200));

Deno.test("trees with a directory in common store each of its files once", async () => {
  const { dir, put } = await setup();
  await using _ = dir;
  const common = Object.fromEntries(
    Array.from({ length: 30 }, (_, at) => [`common/${at % 3}/${at}`, `file ${at}`]),
  );
  await write(dir.join("one"), { ...common, "only/one": "one" });
  await write(dir.join("two"), { ...common, "only/two": "two", twice: "file 7" });
  assert.equal((await put("one")).blobs, 30 + 1 + 1);
  assert.equal((await put("two")).blobs, 30 + 1 + 1 + 2);
});

Deno.test("a tree that did not change is not read, and nothing is written to the store", async () => {
  const { dir, root, put } = await setup();
  await using _ = dir;
  const files = Array.from({ length: 40 }, (_, at) => [`d${at % 4}/${at}`, `file ${at}`]);
  await write(dir.join("tree"), Object.fromEntries(files));
  await Deno.writeFile(dir.join("tree/large"), crypto.getRandomValues(new Uint8Array(60_000)));
  await Deno.utime(dir.join("tree/large"), OLD, OLD);
  await settle();
  const first = await put("tree");
  assert.equal(first.read, 41);
  const before = await contentOf(root);
  assert.deepEqual(await put("tree"), { ...first, read: 0 });
  assert.deepEqual(await contentOf(root), before);
  // The same files elsewhere are read, since nobody saw them there, and nothing is written either.
  await write(dir.join("copy"), Object.fromEntries(files));
  await Deno.copyFile(dir.join("tree/large"), dir.join("copy/large"));
  assert.deepEqual(await put("copy"), first);
  assert.deepEqual(await contentOf(root), before);
});

Deno.test("of a directory that got another name, only a new manifest is stored", async () => {
  const { dir, root, put } = await setup();
  await using _ = dir;
  await write(dir.join("tree"), { "before/a": "a", "before/deep/b": "b", other: "c" });
  const first = await put("tree");
  const before = await contentOf(root);
  await Deno.rename(dir.join("tree/before"), dir.join("tree/after"));
  const second = await put("tree");
  assert.notEqual(second.manifest, first.manifest);
  assert.equal(second.blobs, first.blobs + 1);
  const after = await contentOf(root);
  assert.deepEqual(after.filter((line) => before.includes(line)), before);
  assert.equal(after.length, before.length + 1);
});
