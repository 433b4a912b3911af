import assert from "node:assert/strict";
import { type Cas, type Cid, openMemory, readManifest } from "../../lib/cas/mod.ts";
import { Workspaces } from "../../lib/job/workspace.ts";
import { TempDir } from "../kit/mod.ts";

const encoder = new TextEncoder();

/** A workspace of campaign 1 that holds `files`, as an agent got it. */
async function given(files: Record<string, string>) {
  const dir = await TempDir.make();
  const cas: Cas = openMemory();
  const workspaces = new Workspaces(dir.path, cas);
  const root = dir.join("projects", "1", "workspace");
  await Deno.mkdir(root, { recursive: true });
  const write = async (path: string, text: string) => {
    await Deno.mkdir(`${root}/${path}`.slice(0, `${root}/${path}`.lastIndexOf("/")), {
      recursive: true,
    });
    await Deno.writeTextFile(`${root}/${path}`, text);
  };
  for (const [path, text] of Object.entries(files)) await write(path, text);
  const { manifest } = await workspaces.snapshot(1);
  const put = (text: string) => cas.put(encoder.encode(text));
  const merge = async (changes: Record<string, Cid | null>, author = "agent-7") =>
    await workspaces.merge(1, { snapshot: manifest, changes, author });
  const text = (path: string) => Deno.readTextFile(`${root}/${path}`).catch(() => null);
  return { dir, root, cas, write, put, merge, text };
}

const NONE = { written: 0, removed: 0, beside: {}, blocked: {}, kept: [] };

Deno.test("what nobody else touched is written, replaced and removed", async () => {
  const at = await given({ "old.txt": "old", "gone.txt": "gone", "d/deep.txt": "deep" });
  await using _ = at.dir;
  const changes = {
    "old.txt": await at.put("changed"),
    "gone.txt": null,
    "new/file.txt": await at.put("new"),
  };
  assert.deepEqual(await at.merge(changes), { ...NONE, written: 2, removed: 1 });
  assert.equal(await at.text("old.txt"), "changed");
  assert.equal(await at.text("gone.txt"), null);
  assert.equal(await at.text("new/file.txt"), "new");
  assert.equal(await at.text("d/deep.txt"), "deep");
  assert.deepEqual(await at.merge(changes), NONE, "again, it changes nothing");
});

Deno.test("the first writer wins, and the other's file is kept beside", async () => {
  const at = await given({ "a.txt": "a", "b.txt": "b" });
  await using _ = at.dir;
  await at.write("a.txt", "somebody");
  await at.write("new.txt", "somebody");
  await Deno.remove(`${at.root}/b.txt`);
  const changes = {
    "a.txt": await at.put("mine"),
    "b.txt": await at.put("mine too"),
    "new.txt": await at.put("my new"),
  };
  const beside = {
    "a.txt": "a.txt.agent-7",
    "b.txt": "b.txt.agent-7",
    "new.txt": "new.txt.agent-7",
  };
  assert.deepEqual(await at.merge(changes), { ...NONE, beside });
  assert.equal(await at.text("a.txt"), "somebody");
  assert.equal(await at.text("a.txt.agent-7"), "mine");
  assert.equal(await at.text("b.txt"), null);
  assert.deepEqual(await at.merge(changes), { ...NONE, beside }, "again, nothing is doubled");
});

Deno.test("a file beside is never written over another one", async () => {
  const at = await given({ "a.txt": "a" });
  await using _ = at.dir;
  await at.write("a.txt", "somebody");
  await at.write("a.txt.agent-7", "somebody else");
  const found = await at.merge({ "a.txt": await at.put("mine") });
  assert.deepEqual(found.beside, { "a.txt": "a.txt.agent-7.2" });
  assert.equal(await at.text("a.txt.agent-7"), "somebody else");
  assert.equal(await at.text("a.txt.agent-7.2"), "mine");
});

Deno.test("a removal of what somebody else changed keeps it", async () => {
  const at = await given({ "a.txt": "a" });
  await using _ = at.dir;
  await at.write("a.txt", "somebody");
  assert.deepEqual(await at.merge({ "a.txt": null }), { ...NONE, kept: ["a.txt"] });
  assert.equal(await at.text("a.txt"), "somebody");
});

Deno.test("what is in the way is not touched, and the file stays in the store", async () => {
  const at = await given({});
  await using _ = at.dir;
  await at.write("dir/file", "x");
  await at.write("file", "x");
  const mine = await at.put("mine");
  const long = "n".repeat(250);
  await at.write(long, "somebody");
  assert.deepEqual(await at.merge({ dir: mine, "file/in": mine, [long]: mine }), {
    ...NONE,
    blocked: { dir: mine, "file/in": mine, [long]: mine },
  });
  assert.equal(await at.text("dir/file"), "x");
  assert.equal(await at.text("file"), "x");
});

Deno.test("two agents that change one file at once both keep theirs", async () => {
  const at = await given({ "a.txt": "a" });
  await using _ = at.dir;
  const found = await Promise.all(
    [1, 2, 3].map(async (n) => await at.merge({ "a.txt": await at.put(`${n}`) }, `agent-${n}`)),
  );
  assert.equal(found.reduce((sum, { written }) => sum + written, 0), 1);
  const texts = [
    await at.text("a.txt"),
    ...await Promise.all(
      found.flatMap(({ beside }) => Object.values(beside)).map((path) => at.text(path)),
    ),
  ];
  assert.deepEqual(texts.sort(), ["1", "2", "3"]);
});

Deno.test("what a process that died in a write left is swept, once, and nothing else", async () => {
  const at = await given({ "a.txt": "a" });
  await using _ = at.dir;
  const part = `d/.${crypto.randomUUID()}.part`;
  await at.write(part, "half");
  await at.write("d/.mine.part", "mine");
  const next = new Workspaces(at.dir.path, at.cas);
  const { manifest } = await next.snapshot(1);
  const { entries } = await readManifest(at.cas, manifest);
  assert.deepEqual(entries.map(({ path }) => path), ["a.txt", "d/.mine.part"]);
  assert.equal(await at.text(part), null);
});
