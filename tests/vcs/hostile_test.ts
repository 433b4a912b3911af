import assert from "node:assert/strict";
import type { Repository } from "../../lib/vcs/mod.ts";
import { exec } from "../kit/exec.ts";
import { Bench, failure, filesIn, type Work } from "./kit.ts";

/** Write an object as it is, however wrong, and return its id. */
async function object(work: Work, type: string, content: Uint8Array): Promise<string> {
  const { code, stdout, stderr } = await exec({
    argv: ["git", "hash-object", "-w", "--literally", "-t", type, "--stdin"],
    cwd: work.path,
    stdin: content,
  });
  assert.equal(code, 0, stderr);
  return new TextDecoder().decode(stdout).trim();
}

type Entry = [mode: string, name: string | Uint8Array, id: string];

function bytesOf(id: string): Uint8Array {
  return Uint8Array.from(id.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** A commit of a tree that git itself would not write. */
async function commitOf(work: Work, entries: Entry[]): Promise<string> {
  const encoder = new TextEncoder();
  const parts = entries.flatMap(([mode, name, id]) => [
    encoder.encode(`${mode} `),
    typeof name === "string" ? encoder.encode(name) : name,
    new Uint8Array([0]),
    bytesOf(id),
  ]);
  const tree = await object(work, "tree", await new Blob(parts as BlobPart[]).bytes());
  const text =
    `tree ${tree}\nauthor A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\n\nHostile\n`;
  return await object(work, "commit", encoder.encode(text));
}

async function setting(): Promise<{ bench: Bench; work: Work; record: Repository; blob: string }> {
  const bench = await Bench.make();
  const { work, record } = await bench.record();
  return { bench, work, record, blob: await work.git("rev-parse", "HEAD:a.txt") };
}

Deno.test("a tree with names that git would take for its own is neither taken nor checked out", async () => {
  const { bench, work, record, blob } = await setting();
  await using _ = bench;
  const inner = (await work.git("rev-parse", "HEAD^{tree}")).trim();
  const names = [
    ".git",
    ".GIT",
    ".g\u200cit",
    "git~1",
    ".git ",
    ".git.",
    "..",
    ".",
    "a/b",
  ];
  for (const name of names) {
    for (const entry of [["100644", name, blob], ["40000", name, inner]] satisfies Entry[]) {
      const revision = await commitOf(work, [entry]);
      const path = bench.dir.join("w");
      // A slash within a name puts a file into a directory, where it does no harm.
      if (name !== "a/b") {
        const here = await failure(record.checkout(revision, path));
        assert.match(here.message, /invalid path|malformed/, name);
        await assert.rejects(Deno.lstat(path), Deno.errors.NotFound);
      }
      const replica = await bench.replica();
      const there = await failure(replica.fetch(bench.cas, [revision], bench.asks(record)));
      assert.match(there.message, /index-pack/, name);
    }
  }
});

Deno.test("a link and a directory of one name cannot write through the link", async () => {
  const { bench, work, record, blob } = await setting();
  await using _ = bench;
  const outside = bench.dir.join("outside");
  await Deno.mkdir(outside);
  const target = await object(work, "blob", new TextEncoder().encode(outside));
  const file = await commitOf(work, [["100644", "a.txt", blob]]);
  const inner = await work.git("rev-parse", `${file}^{tree}`);
  const revision = await commitOf(work, [["120000", "d", target], ["40000", "d", inner]]);
  const path = bench.dir.join("w");
  await record.checkout(revision, path).catch(() => {});
  assert.deepEqual(await filesIn(outside), []);
  const replica = await bench.replica();
  await failure(replica.fetch(bench.cas, [revision], bench.asks(record)));
});

Deno.test("links come as links: absolute, dangling and looping", async () => {
  const { bench, work, record } = await setting();
  await using _ = bench;
  await Deno.symlink("/etc/passwd", `${work.path}/absolute`);
  await Deno.symlink("nowhere", `${work.path}/dangling`);
  await Deno.symlink("loop", `${work.path}/loop`);
  await Deno.symlink("../../..", `${work.path}/up`);
  const revision = await work.commit({});
  const replica = await bench.replica();
  const path = bench.dir.join("w");
  await replica.checkout(revision, path, { cas: bench.cas, ask: bench.asks(record) });
  for (
    const [name, target] of [["absolute", "/etc/passwd"], ["loop", "loop"], ["up", "../../.."]]
  ) {
    assert.equal(await Deno.readLink(`${path}/${name}`), target);
  }
  await replica.discard(path);
  assert.ok((await Deno.stat("/etc/passwd")).isFile);
});

Deno.test("names of any bytes, and names that differ by case or form alone, arrive as they are", async () => {
  const { bench, work, record, blob } = await setting();
  await using _ = bench;
  const latin = new Uint8Array([0x63, 0x61, 0x66, 0xe9]); // "caf\xe9", no UTF-8
  const names = [
    "A",
    "a",
    "a:b",
    "a\\..\\b",
    "dot.",
    "line\nbreak",
    "caf\u00e9",
    "cafe\u0301",
    "x".repeat(255),
  ];
  const encoder = new TextEncoder();
  const entries: [Uint8Array, string][] = [...names.map((n) => encoder.encode(n)), latin]
    .map((name) => [name, blob]);
  const compare = (x: Uint8Array, y: Uint8Array) => {
    const at = x.findIndex((byte, i) => byte !== y[i]);
    return at < 0 ? x.length - y.length : (x[at] ?? 0) - (y[at] ?? -1);
  };
  entries.sort(([x], [y]) => compare(x, y));
  const revision = await commitOf(work, entries.map(([name, id]) => ["100644", name, id]));
  const replica = await bench.replica();
  const path = bench.dir.join("w");
  await replica.checkout(revision, path, { cas: bench.cas, ask: bench.asks(record) });
  const listed = await exec({ argv: ["git", "status", "--porcelain"], cwd: path });
  assert.equal(new TextDecoder().decode(listed.stdout), "");
  // Deno 2.6 does not list a name that is no UTF-8.
  const counted = await exec({
    argv: [
      "find",
      ".",
      "-mindepth",
      "1",
      "-maxdepth",
      "1",
      "-not",
      "-name",
      ".git",
      "-printf",
      "x",
    ],
    cwd: path,
  });
  assert.equal(counted.stdout.length, names.length + 1);
  const found = await filesIn(path);
  for (const name of names) assert.ok(found.includes(name), name);
  await replica.discard(path);
  await assert.rejects(Deno.lstat(path), Deno.errors.NotFound);
});

Deno.test("a name that no file system takes fails the checkout, and the replica is not rebuilt for it", async () => {
  const { bench, work, record, blob } = await setting();
  await using _ = bench;
  const revision = await commitOf(work, [["100644", "x".repeat(300), blob]]);
  const replica = await bench.replica();
  const path = bench.dir.join("w");
  const commands = await bench.commands(async () => {
    const error = await failure(
      replica.checkout(revision, path, { cas: bench.cas, ask: bench.asks(record) }),
    );
    assert.match(error.message, /File name too long/);
  });
  assert.ok(!commands.includes("fsck"), commands.join());
  await assert.rejects(Deno.lstat(path), Deno.errors.NotFound);
});

Deno.test("a commit as an old tool wrote it, odd and harmless, is taken", async () => {
  const { bench, work, record } = await setting();
  await using _ = bench;
  const tree = await work.git("rev-parse", "HEAD^{tree}");
  const revision = await object(
    work,
    "commit",
    new TextEncoder().encode(
      `tree ${tree}\nauthor A a@b> 1 +051800\ncommitter A <a@b> 1700000000 +0000\n\nOld\n`,
    ),
  );
  const replica = await bench.replica();
  await replica.fetch(bench.cas, [revision], bench.asks(record));
  assert.deepEqual(await replica.has([revision]), new Set([revision]));
});

Deno.test("attributes that git passes over are no ground to refuse a history, and excuse nothing beside them", async () => {
  const { bench, work, record, blob } = await setting();
  await using _ = bench;
  const revision = await work.commit({
    ".gitattributes": `*.txt ${"x".repeat(3000)}\n`,
    "deep/.gitattributes": `*.txt ${"y".repeat(3000)}\n`,
  });
  const replica = await bench.replica();
  const path = bench.dir.join("w");
  await replica.checkout(revision, path, { cas: bench.cas, ask: bench.asks(record) });
  assert.deepEqual(await filesIn(path), [".gitattributes", "a.txt", "deep/.gitattributes"]);
  const attributes = await work.git("rev-parse", "HEAD:.gitattributes");
  const both = await commitOf(work, [["100644", ".git", blob], [
    "100644",
    ".gitattributes",
    attributes,
  ]]);
  const other = await bench.replica("clones/2");
  await failure(other.fetch(bench.cas, [both], bench.asks(record)));
  assert.deepEqual(await other.has([both]), new Set());
});
