/** @module Tests of trees: stored, put in place as read-only shared copies, and checked after use. */

import assert from "node:assert/strict";
import { dirname } from "node:path";
import {
  type ChangedPath,
  cidOf,
  type Entry,
  Manifests,
  materialise,
  openMemory,
  type Placed,
  putManifest,
  readManifest,
  SeenFiles,
  SharedInputs,
  storeTree,
} from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";

const unix = Deno.build.os !== "windows";
const bytes = (text: string) => new TextEncoder().encode(text);

/** A store that counts the files that are taken from it and put into it. */
function counted() {
  const cas = openMemory();
  const counts = { got: 0, put: 0 };
  const { getStream, put } = cas;
  cas.getStream = (cid, limits) => (counts.got++, getStream.call(cas, cid, limits));
  cas.put = (data, limits) => (counts.put++, put.call(cas, data, limits));
  return { cas, counts };
}

async function setup(files: Record<string, string> = { "a.txt": "abc", "d/b.txt": "hello" }) {
  const dir = await TempDir.make();
  const { cas, counts } = counted();
  await Deno.mkdir(dir.join("source"));
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(dirname(dir.join("source", path)), { recursive: true });
    await Deno.writeTextFile(dir.join("source", path), text, { mode: 0o644 });
  }
  await Deno.mkdir(dir.join("checkout"));
  const shared = new SharedInputs(cas, dir.join("inputs"));
  const stored = await storeTree(cas, dir.join("source"));
  const manifest = await new Manifests(cas).open(stored.manifest);
  const put = (root = "checkout", path = "data") =>
    materialise(manifest, dir.join(root), path, shared);
  return { dir, cas, counts, shared, stored, manifest, put };
}

const changes = (placed: Placed): Promise<ChangedPath[]> => Array.fromAsync(placed.changes());

/** Paths of what was put in place. */
async function paths(placed: Placed): Promise<string[]> {
  const states = (await Array.fromAsync(placed.states())).flat();
  return states.filter(({ now }) => now !== null).map(({ path }) => path);
}

/** What the owner of the files may do to a file that is read-only. */
async function overwrite(path: string, text: string): Promise<void> {
  await Deno.chmod(path, 0o644);
  await Deno.writeTextFile(path, text);
}

Deno.test("a stored tree comes back as the same files, read-only", async () => {
  const { dir, put, stored } = await setup();
  await using _ = dir;
  const placed = await put();
  assert.deepEqual(await paths(placed), ["data/a.txt", "data/d/b.txt"]);
  assert.equal(await Deno.readTextFile(dir.join("checkout/data/a.txt")), "abc");
  assert.equal(await Deno.readTextFile(dir.join("checkout/data/d/b.txt")), "hello");
  if (unix) {
    assert.equal(((await Deno.stat(dir.join("checkout/data/a.txt"))).mode ?? 0) & 0o777, 0o444);
  }
  assert.deepEqual({ files: stored.files, bytes: stored.bytes }, { files: 2, bytes: 8 });
  assert.deepEqual(await changes(placed), []);
});

Deno.test("equal trees have one address whatever their times, unless times are kept", async () => {
  const { dir, cas, stored } = await setup();
  await using _ = dir;
  await Deno.utime(dir.join("source/a.txt"), 5, 5);
  assert.equal((await storeTree(cas, dir.join("source"))).manifest, stored.manifest);
  const timed = await storeTree(cas, dir.join("source"), { times: true });
  assert.notEqual(timed.manifest, stored.manifest);
  await materialise(
    await new Manifests(cas).open(timed.manifest),
    dir.join("checkout"),
    "data",
    new SharedInputs(cas, dir.join("inputs")),
  );
  assert.equal((await Deno.stat(dir.join("checkout/data/a.txt"))).mtime?.getTime(), 5000);
});

Deno.test("an executable file stays executable", async () => {
  const { dir, cas } = await setup();
  await using _ = dir;
  await Deno.chmod(dir.join("source/a.txt"), 0o755);
  const { manifest } = await storeTree(cas, dir.join("source"));
  const shared = new SharedInputs(cas, dir.join("inputs"));
  await materialise(await new Manifests(cas).open(manifest), dir.join("checkout"), "data", shared);
  assert.equal(((await Deno.stat(dir.join("checkout/data/a.txt"))).mode ?? 0) & 0o777, 0o555);
});

Deno.test("symbolic links are stored as links, dangling ones too, and are never followed", async () => {
  const { dir, cas, shared } = await setup();
  await using _ = dir;
  await Deno.symlink("/nowhere/at/all", dir.join("source/dangling"));
  await Deno.symlink("..", dir.join("source/loop"));
  const stored = await storeTree(cas, dir.join("source"));
  assert.equal(stored.files, 4);
  const placed = await materialise(
    await new Manifests(cas).open(stored.manifest),
    dir.join("checkout"),
    "data",
    shared,
  );
  assert.equal(await Deno.readLink(dir.join("checkout/data/dangling")), "/nowhere/at/all");
  assert.equal(await Deno.readLink(dir.join("checkout/data/loop")), "..");
  assert.deepEqual(await changes(placed), []);
  await Deno.remove(dir.join("checkout/data/loop"));
  await Deno.symlink("elsewhere", dir.join("checkout/data/loop"));
  assert.deepEqual(await changes(placed), [{ path: "data/loop", shared: false }]);
});

Deno.test("a root that is a link to a directory is stored as that directory", async () => {
  const { dir, cas, stored } = await setup();
  await using _ = dir;
  await Deno.symlink(dir.join("source"), dir.join("alias"));
  assert.equal((await storeTree(cas, dir.join("alias"))).manifest, stored.manifest);
});

Deno.test("a root that is missing or no directory is refused", async () => {
  const { dir, cas } = await setup();
  await using _ = dir;
  await assert.rejects(storeTree(cas, dir.join("none")), (error) => isError(error, "not_found"));
  await assert.rejects(
    storeTree(cas, dir.join("source/a.txt")),
    (error) => isError(error, "invalid_request"),
  );
});

for (const name of ["d/.git", "a\\b", "C:x"]) {
  Deno.test(`a tree with the name ${JSON.stringify(name)} is refused, and named`, async () => {
    const { dir, cas } = await setup();
    await using _ = dir;
    await Deno.writeTextFile(dir.join("source", name), "");
    await assert.rejects(
      storeTree(cas, dir.join("source")),
      (error) => isError(error, "unsafe_path") && error.message.includes(JSON.stringify(name)),
    );
  });
}

Deno.test("files that were seen before are not read again", async () => {
  const { dir, cas, counts } = await setup();
  await using _ = dir;
  for (const path of ["a.txt", "d/b.txt"]) await Deno.utime(dir.join("source", path), 1000, 1000);
  const seen = new SeenFiles();
  await storeTree(cas, dir.join("source"), { seen });
  const before = counts.put;
  await storeTree(cas, dir.join("source"), { seen });
  assert.equal(counts.put, before);
  await Deno.writeTextFile(dir.join("source/a.txt"), "abd");
  const changed = await storeTree(cas, dir.join("source"), { seen });
  assert.equal(counts.put, before + 1);
  const entry = (await readManifest(cas, changed.manifest)).entries[0];
  assert.ok(entry !== undefined && "blob" in entry && entry.blob === cidOf(bytes("abd")));
});

Deno.test("two checkouts share one copy, which is fetched once", async () => {
  const { dir, put, counts } = await setup();
  await using _ = dir;
  await Deno.mkdir(dir.join("other"));
  counts.got = 0;
  await Promise.all([put(), put("other")]);
  assert.equal(counts.got, 2);
  const inode = async (path: string) => (await Deno.stat(dir.join(path))).ino;
  assert.equal(await inode("checkout/data/a.txt"), await inode("other/data/a.txt"));
});

Deno.test("a copy that another process left is hashed, and not fetched again when it is right", async () => {
  const { dir, cas, put, counts, manifest } = await setup();
  await using _ = dir;
  await put();
  counts.got = 0;
  await Deno.mkdir(dir.join("other"));
  const again = new SharedInputs(cas, dir.join("inputs"));
  const placed = await materialise(manifest, dir.join("other"), "data", again);
  assert.equal(counts.got, 0);
  assert.deepEqual(placed.rebuilt, []);
});

Deno.test("a file that is there already stays, and is not checked", async () => {
  const { dir, put } = await setup();
  await using _ = dir;
  await Deno.mkdir(dir.join("checkout/data"));
  await Deno.writeTextFile(dir.join("checkout/data/a.txt"), "mine");
  const placed = await put();
  assert.deepEqual(await paths(placed), ["data/d/b.txt"]);
  assert.equal(await Deno.readTextFile(dir.join("checkout/data/a.txt")), "mine");
});

Deno.test("a changed, removed or replaced file is told apart from one with the same content", async () => {
  const { dir, put } = await setup({ a: "1", b: "2", c: "3", d: "4" });
  await using _ = dir;
  const placed = await put();
  await overwrite(dir.join("checkout/data/a"), "x");
  await Deno.remove(dir.join("checkout/data/b"));
  await Deno.remove(dir.join("checkout/data/c"));
  await Deno.symlink("/etc/hostname", dir.join("checkout/data/c"));
  await Deno.remove(dir.join("checkout/data/d"));
  await Deno.writeTextFile(dir.join("checkout/data/d"), "4");
  assert.deepEqual((await changes(placed)).map(({ path }) => path), [
    "data/a",
    "data/b",
    "data/c",
  ]);
});

Deno.test("a shared copy that a job altered is made again for the next one", async () => {
  const { dir, put } = await setup();
  await using _ = dir;
  await put();
  await overwrite(dir.join("checkout/data/a.txt"), "bad");
  await Deno.mkdir(dir.join("other"));
  const placed = await put("other");
  assert.deepEqual(placed.rebuilt, [cidOf(bytes("abc"))]);
  assert.equal(await Deno.readTextFile(dir.join("other/data/a.txt")), "abc");
  assert.deepEqual(await changes(placed), []);
});

Deno.test("a shared copy that is a link or a directory is not trusted, and what it points to stays", async () => {
  const { dir, cas, put, manifest } = await setup();
  await using _ = dir;
  await put();
  await Deno.writeTextFile(dir.join("victim"), "abc");
  const names = [...Deno.readDirSync(dir.join("inputs"))].map((entry) => entry.name);
  for (const name of names) {
    await Deno.remove(dir.join("inputs", name));
    if (name.includes(cidOf(bytes("abc")))) {
      await Deno.symlink(dir.join("victim"), dir.join("inputs", name));
    } else await Deno.mkdir(dir.join("inputs", name));
  }
  await Deno.mkdir(dir.join("other"));
  const placed = await materialise(
    manifest,
    dir.join("other"),
    "data",
    new SharedInputs(cas, dir.join("inputs")),
  );
  assert.equal(placed.rebuilt.length, 2);
  assert.equal((await Deno.lstat(dir.join("other/data/a.txt"))).isFile, true);
  assert.equal(await Deno.readTextFile(dir.join("victim")), "abc");
});

Deno.test("nothing is written through a link in the checkout", async () => {
  const { dir, put } = await setup();
  await using _ = dir;
  await Deno.mkdir(dir.join("outside"));
  await Deno.symlink(dir.join("outside"), dir.join("checkout/data"));
  await assert.rejects(put(), (error) => isError(error, "unsafe_path"));
  await Deno.mkdir(dir.join("second/data"), { recursive: true });
  await Deno.symlink(dir.join("outside"), dir.join("second/data/d"));
  await assert.rejects(put("second"), (error) => isError(error, "unsafe_path"));
  assert.deepEqual([...Deno.readDirSync(dir.join("outside"))], []);
});

for (const path of ["../x", "/tmp/x", "a/../../x", ".git/hooks"]) {
  Deno.test(`a tree is not put at ${JSON.stringify(path)}`, async () => {
    const { dir, put } = await setup();
    await using _ = dir;
    await assert.rejects(put("checkout", path), (error) => isError(error, "unsafe_path"));
    assert.deepEqual([...Deno.readDirSync(dir.join("checkout"))], []);
  });
}

Deno.test("a tree is put into the root itself with an empty path", async () => {
  const { dir, put } = await setup();
  await using _ = dir;
  const placed = await put("checkout", "");
  assert.deepEqual(await paths(placed), ["a.txt", "d/b.txt"]);
  assert.equal(await Deno.readTextFile(dir.join("checkout/d/b.txt")), "hello");
  assert.deepEqual(await changes(placed), []);
});

Deno.test("a blob that is lacking, or has another size, is refused and leaves no copy", async () => {
  const { dir, cas, shared } = await setup();
  await using _ = dir;
  const lacking: Entry = { path: "x", mode: 0o644, size: 3, blob: cidOf(bytes("xyz")) };
  const wrong: Entry = { path: "x", mode: 0o644, size: 4, blob: await cas.put(bytes("abc")) };
  const refused = async (entry: Entry, code: "not_found" | "integrity") => {
    const tree = await new Manifests(cas).open(await putManifest(cas, [entry]));
    await assert.rejects(
      materialise(tree, dir.join("checkout"), "data", shared),
      (error) => isError(error, code),
    );
  };
  await refused(lacking, "not_found");
  await refused(wrong, "integrity");
  assert.deepEqual([...Deno.readDirSync(dir.join("inputs"))], []);
});

Deno.test("eviction removes copies that no checkout links to, and no other", async () => {
  const { dir, put, shared } = await setup();
  await using _ = dir;
  await put();
  assert.equal(await shared.evict(1), 0);
  await Deno.remove(dir.join("checkout/data/a.txt"));
  assert.equal(await shared.evict(100), 3);
  await Deno.mkdir(dir.join("other"));
  await put("other");
  assert.equal(await Deno.readTextFile(dir.join("other/data/a.txt")), "abc");
});

Deno.test("temporary files that a dead process left are removed, fresh ones stay", async () => {
  const { dir, put } = await setup();
  await using _ = dir;
  await Deno.mkdir(dir.join("inputs"));
  await Deno.writeTextFile(dir.join("inputs/.old.part"), "");
  await Deno.utime(dir.join("inputs/.old.part"), 1000, 1000);
  await Deno.writeTextFile(dir.join("inputs/.new.part"), "");
  await put();
  const names = [...Deno.readDirSync(dir.join("inputs"))].map((entry) => entry.name);
  assert.equal(names.includes(".old.part"), false);
  assert.equal(names.includes(".new.part"), true);
});

Deno.test("a manifest without entries makes an empty directory", async () => {
  const { dir, cas, shared } = await setup();
  await using _ = dir;
  const tree = await new Manifests(cas).open(await putManifest(cas, []));
  assert.equal((await materialise(tree, dir.join("checkout"), "a/b", shared)).files, 0);
  assert.equal((await Deno.stat(dir.join("checkout/a/b"))).isDirectory, true);
});
