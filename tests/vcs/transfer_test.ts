import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { headerEnd, parseHeader } from "../../lib/vcs/bundle.ts";
import { exec } from "../kit/exec.ts";
import { Bench, failure, filesIn, git, Work } from "./kit.ts";

Deno.test("a commit reaches an empty replica and is checked out there", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revision = await work.commit({ "src/b.txt": "two\n" });
  const replica = await bench.replica();
  const path = bench.dir.join("runs/1/worktree");
  await replica.checkout(revision, path, { cas: bench.cas, ask: bench.asks(record) });
  assert.deepEqual(await filesIn(path), ["a.txt", "src/b.txt"]);
  assert.equal(await git(path, "rev-parse", "HEAD"), revision);
  assert.equal(await git(path, "status", "--porcelain"), "");
});

Deno.test("a later commit comes as an increment over what the replica has", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const big = crypto.getRandomValues(new Uint8Array(60_000));
  const first = await work.commit({ "big.bin": big });
  const replica = await bench.replica();
  const ask = bench.asks(record);
  await replica.fetch(bench.cas, [first], ask);
  big[30_000] = 1;
  const second = await work.commit({ "big.bin": big });
  const sent = await record.send(bench.cas, [second], [first]);
  assert.ok(sent !== null && sent.bytes < 2_000, `a thin pack of a changed byte: ${sent?.bytes}`);
  await replica.fetch(bench.cas, [second], ask);
  assert.deepEqual(ask.asked, [
    { revisions: [first], have: [] },
    { revisions: [second], have: [first] },
  ]);
  assert.deepEqual(await replica.tips(), [second, first]);
  assert.deepEqual(await replica.has([first, second]), new Set([first, second]));
});

Deno.test("what is there already is not asked for, an ancestor too", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const second = await work.commit({ "b.txt": "two\n" });
  const replica = await bench.replica();
  const ask = bench.asks(record);
  await replica.fetch(bench.cas, [second], ask);
  await replica.fetch(bench.cas, [second, first], ask);
  assert.equal(ask.asked.length, 1);
});

Deno.test("diverged branches and a merge of them arrive whole", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const base = (await record.head()).revision;
  const replica = await bench.replica();
  const ask = bench.asks(record);
  await replica.fetch(bench.cas, [base], ask);
  await work.git("checkout", "-q", "-b", "left");
  const left = await work.commit({ "left.txt": "l\n" });
  await work.git("checkout", "-q", "-b", "right", base);
  const right = await work.commit({ "right.txt": "r\n" });
  await replica.fetch(bench.cas, [left], ask);
  await replica.fetch(bench.cas, [right], ask);
  await work.git("merge", "-q", "--no-edit", "left");
  const merge = await work.git("rev-parse", "HEAD");
  const path = bench.dir.join("w");
  await replica.checkout(merge, path, { cas: bench.cas, ask });
  assert.deepEqual(await filesIn(path), ["a.txt", "left.txt", "right.txt"]);
  assert.equal(await git(path, "fsck", "--connectivity-only"), "");
  assert.equal(await replica.contains(merge, left), true);
  assert.equal(await replica.contains(left, right), false);
});

Deno.test("what `send` makes is a v3 bundle that git itself verifies and unbundles", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const second = await work.commit({ "a.txt": "one\ntwo\n" });
  await git(bench.dir.path, "clone", "-q", "--no-local", "record", "other");
  const other = bench.dir.join("other");
  await git(other, "reset", "-q", "--hard", first);
  await git(other, "update-ref", "-d", "refs/remotes/origin/main");
  await git(other, "-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now");
  const sent = await record.send(bench.cas, [second], [first]);
  assert.ok(sent);
  const bytes = await bench.cas.get(sent.blob);
  assert.ok(bytes);
  assert.equal(bytes.length, sent.bytes);
  const header = bytes.subarray(0, headerEnd(bytes) ?? 0);
  assert.equal(
    new TextDecoder().decode(header),
    `# v3 git bundle\n@object-format=sha1\n-${first}\n${second} refs/heads/0\n\n`,
  );
  await Deno.writeFile(bench.dir.join("b"), bytes);
  await git(other, "bundle", "verify", bench.dir.join("b"));
  await git(other, "bundle", "unbundle", bench.dir.join("b"));
  assert.equal(await git(other, "cat-file", "-t", second), "commit");
});

Deno.test("bundles that git made itself are taken, of version 2 and 3", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const second = await work.commit({ "b.txt": "two\n" }, "Second, with a subject");
  await work.git("tag", "-a", "-m", "annotated", "v1");
  const make = async (version: number, ...args: string[]) => {
    await work.git("bundle", "create", "-q", `--version=${version}`, bench.dir.join("b"), ...args);
    return await bench.cas.putFile(bench.dir.join("b"));
  };
  const whole = await make(2, "main~1", "main");
  const next = await make(3, "main", "v1", "^main~1");
  const replica = await bench.replica();
  await replica.fetch(bench.cas, [first, second], () => Promise.resolve([whole, next]));
  assert.deepEqual(await replica.has([first, second]), new Set([first, second]));
});

Deno.test("a SHA-256 repository travels as one", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record("record", "sha256");
  const revision = await work.commit({ "b.txt": "two\n" });
  assert.equal(revision.length, 64);
  const replica = await bench.replica();
  const path = bench.dir.join("w");
  await replica.checkout(revision, path, { cas: bench.cas, ask: bench.asks(record) });
  assert.deepEqual(await filesIn(path), ["a.txt", "b.txt"]);
  bench.restarted();
  assert.deepEqual(await (await bench.replica()).has([revision]), new Set([revision]));
});

Deno.test("a transfer of another object format is refused", async () => {
  await using bench = await Bench.make();
  const { record } = await bench.record();
  const { record: other } = await bench.record("other", "sha256");
  const replica = await bench.replica();
  const base = (await record.head()).revision;
  await replica.fetch(bench.cas, [base], bench.asks(record));
  const head = (await other.head()).revision;
  const sent = await other.send(bench.cas, [head], []);
  assert.ok(sent);
  const error = await failure(replica.receive(bench.cas, { blob: sent.blob, head }, base));
  assert.match(error.message, /sha256 repository/);
});

Deno.test("nothing is sent when the receiver has it all, or when the sender has none of it", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const second = await work.commit({ "b.txt": "two\n" });
  assert.equal(await record.send(bench.cas, [first], [second]), null);
  assert.equal(await record.send(bench.cas, [second], [second]), null);
  assert.equal(await record.send(bench.cas, ["f".repeat(40)], []), null);
  assert.equal(await record.send(bench.cas, [], []), null);
  assert.ok(await record.send(bench.cas, [second, "f".repeat(40)], ["e".repeat(40)]));
});

Deno.test("a commit that the record lost after it was seen there is left out, not a failure", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const gone = await work.commit({ "b.txt": "two\n" });
  assert.deepEqual(await record.has([first, gone]), new Set([first, gone]));
  await work.git("reset", "-q", "--hard", first);
  await work.git("reflog", "expire", "--expire=now", "--all");
  await work.git("gc", "-q", "--prune=now");
  assert.ok(await record.send(bench.cas, [first], [gone]));
  assert.equal(await record.send(bench.cas, [gone], [first]), null);
});

Deno.test("a commit that nobody has fails by its name, without a new clone", async () => {
  await using bench = await Bench.make();
  const { record } = await bench.record();
  const replica = await bench.replica();
  const ask = bench.asks(record);
  const supply = { cas: bench.cas, ask };
  await replica.fetch(bench.cas, [(await record.head()).revision], ask);
  const missing = "0123456789".repeat(4);
  const commands = await bench.commands(async () => {
    const error = await failure(replica.checkout(missing, bench.dir.join("w"), supply));
    assert.ok(isError(error, "not_found"), String(error));
    assert.match(error.message, new RegExp(missing));
  });
  assert.equal(ask.asked.length, 2);
  assert.equal(ask.asked[1]?.have.length, 1, "asked beyond what it has, not from nothing");
  assert.ok(!commands.includes("fsck") && !commands.includes("init"), commands.join());
  assert.deepEqual(await replica.checkouts(bench.dir.path), []);
  await assert.rejects(Deno.lstat(bench.dir.join("w")), Deno.errors.NotFound);
});

Deno.test("commits that came are pinned even when another one did not", async () => {
  await using bench = await Bench.make();
  const { record } = await bench.record();
  const { revision } = await record.head();
  const replica = await bench.replica();
  const error = await failure(
    replica.fetch(bench.cas, [revision, "f".repeat(40)], bench.asks(record)),
  );
  assert.match(error.message, /1 of 2 commits, such as f{40}/);
  const pins = await git(replica.path, "for-each-ref", "--format=%(refname)");
  assert.equal(pins, `refs/sublet/fetched/${revision}`);
});

Deno.test("a transfer that builds on what is lacking is refused before git sees it", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const second = await work.commit({ "b.txt": "two\n" });
  const third = await work.commit({ "c.txt": "three\n" });
  const replica = await bench.replica();
  await replica.fetch(bench.cas, [first], bench.asks(record));
  const sent = await record.send(bench.cas, [third], [second]);
  assert.ok(sent);
  const commands = await bench.commands(async () => {
    const error = await failure(
      replica.receive(bench.cas, { blob: sent.blob, head: third }, first),
    );
    assert.match(error.message, new RegExp(`builds on commit ${second}`));
  });
  assert.deepEqual(commands, ["cat-file"]);
});

Deno.test("a shallow repository of record is refused, with the command that mends it", async () => {
  await using bench = await Bench.make();
  const { work } = await bench.record();
  await work.commit({ "b.txt": "two\n" });
  await git(bench.dir.path, "clone", "-q", "--depth=1", `file://${work.path}`, "shallow");
  const shallow = await bench.vcs.open(bench.dir.join("shallow"));
  const error = await failure(shallow.send(bench.cas, [(await shallow.head()).revision], []));
  assert.match(error.message, /git fetch --unshallow/);
  await git(shallow.path, "fetch", "-q", "--unshallow");
  assert.ok(await shallow.send(bench.cas, [(await shallow.head()).revision], []));
});

Deno.test("a repository without a commit says so", async () => {
  await using bench = await Bench.make();
  const work = await Work.make(bench.dir.join("empty"));
  const record = await bench.vcs.open(work.path);
  assert.ok(isError(await failure(record.head()), "not_found"));
  assert.deepEqual(await record.tips(), []);
  const replica = await bench.replica();
  assert.deepEqual(await replica.tips(), []);
  assert.deepEqual(await replica.has(["a".repeat(40)]), new Set());
  assert.ok(isError(await failure(replica.head()), "not_found"));
});

Deno.test("a blob that the CAS lacks, that is no bundle, or that is cut short stores nothing", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { revision } = await record.head();
  const replica = await bench.replica();
  const fetch = (bytes: Uint8Array) => async () => [await bench.cas.put(bytes)];
  const absent = () => Promise.resolve([cidOf(new TextEncoder().encode("absent"))]);
  assert.ok(isError(await failure(replica.fetch(bench.cas, [revision], absent)), "not_found"));
  for (
    const junk of ["", "\n\n", "# v3 git bundle\n", "PACK\0\0\0\x02\0\0\0\0", "x".repeat(9999)]
  ) {
    const error = await failure(
      replica.fetch(bench.cas, [revision], fetch(new TextEncoder().encode(junk))),
    );
    assert.match(error.message, /no git bundle/);
  }
  const next = await work.commit({ "n.bin": crypto.getRandomValues(new Uint8Array(4000)) });
  const sent = await record.send(bench.cas, [next], []);
  const whole = sent === null ? null : await bench.cas.get(sent.blob);
  assert.ok(whole);
  const start = headerEnd(whole) ?? 0;
  for (const length of [start, start + 6, start + 40, whole.length - 1]) {
    const error = await failure(
      replica.fetch(bench.cas, [next], fetch(whole.slice(0, length))),
    );
    assert.ok(isError(error, "failed"), String(error));
  }
  assert.deepEqual(await replica.has([revision, next]), new Set());
  await replica.fetch(bench.cas, [next], fetch(whole));
  assert.deepEqual(await replica.has([revision, next]), new Set([revision, next]));
});

Deno.test("a header that states another head than its pack holds is found out", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { revision } = await record.head();
  const next = await work.commit({ "b.txt": "two\n" });
  const sent = await record.send(bench.cas, [revision], []);
  const bytes = sent === null ? null : await bench.cas.get(sent.blob);
  assert.ok(bytes);
  const pack = bytes.subarray(headerEnd(bytes) ?? 0);
  const lie = new TextEncoder().encode(
    `# v3 git bundle\n@object-format=sha1\n${next} refs/heads/0\n\n`,
  );
  const blob = await bench.cas.put(new Uint8Array([...lie, ...pack]));
  const replica = await bench.replica();
  const error = await failure(replica.fetch(bench.cas, [next], () => Promise.resolve([blob])));
  assert.ok(isError(error, "not_found"), String(error));
  const received = await failure(replica.receive(bench.cas, { blob, head: next }, revision));
  assert.match(received.message, /does not hold it/);
});

Deno.test("a pack that lacks a file of its own commit is refused", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { revision } = await record.head();
  const blobId = await work.git("rev-parse", "HEAD:a.txt");
  const ids = (await work.git("rev-list", "--objects", "HEAD")).split("\n").map((l) =>
    l.slice(0, 40)
  );
  await Deno.writeTextFile(
    bench.dir.join("ids"),
    ids.filter((id) => id !== blobId).map((id) => id + "\n").join(""),
  );
  const pack = await exec({
    argv: ["git", "pack-objects", "-q", "--stdout"],
    cwd: work.path,
    stdin: { path: bench.dir.join("ids") },
  });
  const head = new TextEncoder().encode(
    `# v3 git bundle\n@object-format=sha1\n${revision} refs/heads/0\n\n`,
  );
  const blob = await bench.cas.put(new Uint8Array([...head, ...pack.stdout]));
  const replica = await bench.replica();
  const error = await failure(replica.fetch(bench.cas, [revision], () => Promise.resolve([blob])));
  assert.ok(isError(error, "failed"), String(error));
  assert.deepEqual(await replica.has([revision]), new Set());
});

Deno.test("a large transfer goes through a file and leaves none behind", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const big = new Uint8Array(3 * 1024 * 1024);
  for (let at = 0; at < big.length; at += 65_536) {
    crypto.getRandomValues(big.subarray(at, at + 65_536));
  }
  const revision = await work.commit({ "big.bin": big });
  const replica = await bench.replica();
  const path = bench.dir.join("w");
  await replica.checkout(revision, path, { cas: bench.cas, ask: bench.asks(record) });
  assert.deepEqual(await Deno.readFile(`${path}/big.bin`), big);
  assert.deepEqual(await filesIn(`${replica.path}/sublet-tmp`), []);
  assert.deepEqual(await filesIn(`${work.path}/.git/sublet-tmp`), []);
});

Deno.test("headers from the wire are judged line by line", () => {
  const id = "a".repeat(40);
  const parse = (text: string) => parseHeader(new TextEncoder().encode(text));
  assert.deepEqual(parse(`# v2 git bundle\n-${id} Subject \xff\n${id} refs/x\n\n`), {
    format: "sha1",
    prerequisites: [id],
    heads: [id],
  });
  for (
    const text of [
      `# v4 git bundle\n${id} refs/x\n\n`,
      `# v3 git bundle\n@filter=blob:none\n${id} refs/x\n\n`,
      `# v2 git bundle\n@object-format=sha1\n${id} refs/x\n\n`,
      `# v3 git bundle\n${id} refs/x\n@object-format=sha1\n\n`,
      `# v3 git bundle\n@object-format=sha256\n${id} refs/x\n\n`,
      `# v3 git bundle\n@object-format=md5\n${id} refs/x\n\n`,
      `# v3 git bundle\n-${id}\n\n`,
      `# v3 git bundle\n--upload-pack=x ${id}\n\n`,
      `# v3 git bundle\n${id.toUpperCase()} refs/x\n\n`,
      `# v3 git bundle\n${id}0 refs/x\n\n`,
    ]
  ) assert.throws(() => parse(text), /no git bundle that can be taken/, text);
});
