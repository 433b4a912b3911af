import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { identityOf } from "../../lib/vcs/identity.ts";
import { exec } from "../kit/exec.ts";
import { Bench, failure, git, Work } from "./kit.ts";

Deno.test("a version is named by branch, tag, abbreviation or expression", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const second = await work.commit({ "b.txt": "two\n" }, "Second\nline of the subject\n\nBody");
  await work.git("tag", "light", first);
  await work.git("tag", "-a", "-m", "annotated", "v1.0", second);
  await work.git("branch", "topic/x", first);
  const tree = await work.git("rev-parse", "HEAD^{tree}");
  for (
    const name of ["main", "HEAD", "v1.0", second, second.slice(0, 10), "@", "refs/heads/main"]
  ) {
    assert.deepEqual(
      await record.version(name),
      { revision: second, tree, subject: "Second line of the subject" },
      name,
    );
  }
  for (const name of ["light", "topic/x", "HEAD~1", "main^", "v1.0~1"]) {
    assert.equal((await record.version(name)).revision, first, name);
  }
  for (const name of ["nothing", "f".repeat(40), "HEAD~9", `${second}0`]) {
    assert.ok(isError(await failure(record.version(name)), "not_found"), name);
  }
  for (const name of ["", "-x", "--all", "a..b", "^main", "HEAD:a.txt", ":/F", "a\nb", "a\0b"]) {
    assert.ok(isError(await failure(record.version(name)), "invalid_request"), name);
  }
});

Deno.test("subjects are read in the encoding that their commit states", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  await work.git("config", "i18n.commitEncoding", "ISO-8859-1");
  await Deno.writeFile(bench.dir.join("m"), new Uint8Array([0x63, 0x61, 0x66, 0xe9, 10]));
  await work.git("commit", "-q", "--allow-empty", "-F", bench.dir.join("m"));
  assert.equal((await record.head()).subject, "caf\u00e9");
  assert.deepEqual((await record.history(9)).map(({ subject }) => subject), ["caf\u00e9", "First"]);
  await work.git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "");
  assert.equal((await record.head()).subject, "");
});

Deno.test("history is newest first, bounded, from the head or another commit", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revisions = [(await record.head()).revision];
  for (let i = 0; i < 4; i++) revisions.unshift(await work.commit({ n: `${i}` }, `Number ${i}`));
  const all = await record.history(100);
  assert.deepEqual(all.map(({ revision }) => revision), revisions);
  assert.deepEqual(all[0], await record.head());
  assert.deepEqual(await record.history(2), all.slice(0, 2));
  assert.deepEqual(await record.history(2, revisions[3]), all.slice(3, 5));
  assert.ok(isError(await failure(record.history(2, "--all")), "invalid_request"));
});

Deno.test("`has` answers for a whole list in one process, and remembers what it saw", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = await work.git("rev-parse", "HEAD");
  const blob = await work.git("rev-parse", "HEAD:a.txt");
  const asked = [first, "f".repeat(40), blob, "e".repeat(64), first];
  assert.deepEqual(await bench.commands(() => record.has(asked)), ["cat-file"]);
  assert.deepEqual(await record.has(asked), new Set([first]));
  assert.deepEqual(await bench.commands(() => record.has([first])), []);
  const second = (await record.version(await work.commit({ "b.txt": "" }))).revision;
  const sending = await bench.commands(() => record.send(bench.cas, [second], [first]));
  assert.deepEqual(sending, ["pack-objects"], "what was named is known to be here");
  assert.ok(isError(await failure(record.has(["main"])), "invalid_request"));
});

Deno.test("an abbreviation of a SHA-256 commit is no commit of it", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record("record", "sha256");
  const revision = await work.git("rev-parse", "HEAD");
  assert.deepEqual(await record.has([revision.slice(0, 40), revision]), new Set([revision]));
});

Deno.test("tips are the newest commits of branches and tags, each once", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revisions = [(await record.head()).revision];
  for (let i = 0; i < 5; i++) {
    revisions.unshift(await work.commit({ n: `${i}` }));
    await work.git("branch", `b${i}`);
    await work.git("tag", `t${i}`);
  }
  await work.git("tag", "tree", "HEAD^{tree}");
  assert.deepEqual(await record.tips(), revisions.slice(0, 5));
  assert.deepEqual(await record.tips(2), revisions.slice(0, 2));
});

Deno.test("`contains` is descent, or that merging changes nothing", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const base = (await record.head()).revision;
  const change = await work.commit({ "b.txt": "two\n" });
  await work.git("checkout", "-q", "--detach", base);
  await work.commit({ "c.txt": "three\n" });
  await work.git("cherry-pick", change);
  const picked = await work.git("rev-parse", "HEAD");
  const conflicting = await work.commit({ "a.txt": "mine\n" });
  await work.git("checkout", "-q", "--detach", base);
  const other = await work.commit({ "a.txt": "theirs\n" });
  await work.git("checkout", "-q", "--orphan", "unrelated");
  const unrelated = await work.commit({ "a.txt": "u\n" });
  assert.equal(await record.contains(picked, base), true);
  assert.equal(await record.contains(base, picked), false);
  assert.equal(await record.contains(picked, change), true, "the change was copied");
  assert.equal(await record.contains(conflicting, other), false);
  assert.equal(await record.contains(other, unrelated), false);
});

Deno.test("`untracked` tells paths that a commit does not hold, whatever they look like", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revision = await work.commit({ "dir/x": "", "*": "", "-x": "", ":(top)y": "", "a\nb": "" });
  const names = ["a.txt", "dir", "dir/x", "dir/y", "*", "-x", "--all", ":(top)y", "?.txt", "data"];
  assert.deepEqual(
    await record.untracked(revision, names),
    ["dir/y", "--all", "?.txt", "data"],
  );
  assert.deepEqual(await record.untracked(revision, ["x\ny", "a\nb", "x", "dir"]), ["x\ny", "x"]);
  assert.deepEqual(await record.untracked(revision, []), []);
  assert.ok(isError(await failure(record.untracked(revision, ["../x"])), "unsafe_path"));
});

Deno.test("`keep` holds a commit through a garbage collection, under a plain ref alone", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const kept = await work.commit({ "b.txt": "two\n" });
  await record.keep(kept, "refs/sublet/1/r7/0");
  await record.keep(kept, "refs/sublet/1/r7/0");
  await work.git("reset", "-q", "--hard", first);
  await work.git("reflog", "expire", "--expire=now", "--all");
  await work.git("gc", "-q", "--prune=now");
  assert.equal((await record.version(kept)).revision, kept);
  for (
    const name of [
      "refs/heads",
      "HEAD",
      "refs/../x/y",
      "refs/a/b.lock",
      "refs/a/-b",
      "refs/a/b c",
      "refs/a/b\ndelete refs/heads/main",
      "refs/a//b",
      "refs/a/b.",
      "/refs/a/b",
    ]
  ) assert.ok(isError(await failure(record.keep(kept, name)), "invalid_request"), name);
  assert.ok(isError(await failure(record.keep("f".repeat(40), "refs/a/b")), "failed"));
});

Deno.test("a checkout, a linked worktree and a directory within are the same repository", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { revision } = await record.head();
  const path = bench.dir.join("w");
  await record.checkout(revision, path);
  await Deno.mkdir(`${work.path}/sub`);
  for (const at of [work.path, path, `${work.path}/sub`]) {
    assert.equal(await bench.vcs.root(at), work.path);
    assert.equal((await (await bench.vcs.open(at)).head()).revision, revision);
  }
  await git(path, "commit", "-q", "--allow-empty", "-m", "On the worktree alone");
  assert.equal((await (await bench.vcs.open(path)).head()).subject, "On the worktree alone");
  assert.equal((await record.head()).subject, "First");
  assert.equal(await bench.vcs.root(bench.dir.path), null);
  assert.equal(await bench.vcs.root(bench.dir.join("nowhere")), null);
  for (const at of [bench.dir.path, bench.dir.join("nowhere")]) {
    assert.ok(isError(await failure(bench.vcs.open(at)), "not_found"), at);
  }
});

Deno.test("another repository at the same path is seen", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { revision } = await record.head();
  assert.equal(await bench.vcs.open(work.path), record);
  await Deno.remove(work.path, { recursive: true });
  await Work.make(work.path, "sha256");
  await work.commit({ "z.txt": "z\n" });
  const again = await bench.vcs.open(work.path);
  assert.equal((await again.head()).revision.length, 64);
  assert.deepEqual(await again.has([revision]), new Set());
});

Deno.test("the identity of a repository is the address of its remote, however it is written", () => {
  const same = [
    "https://github.com/Ada/engine.git",
    "https://token:x@GitHub.com/Ada/engine/",
    "https://github.com:443/Ada/engine",
    "ssh://git@github.com/Ada/engine.git",
    "ssh://git@github.com:22/Ada/engine.git",
    "git+ssh://git@github.com/Ada/engine.git",
    "git@github.com:Ada/engine.git",
    "github.com:Ada/engine",
    "git@github.com:/Ada/engine/",
    "git://github.com:9418/Ada/engine",
  ];
  for (const address of same) assert.equal(identityOf(address), "github.com/Ada/engine", address);
  assert.equal(identityOf("ssh://git@host:2222/a/b"), "host:2222/a/b");
  assert.equal(identityOf("https://host:8443/a/b.git"), "host:8443/a/b");
  assert.equal(identityOf("ssh://git@[::1]:2222/a/b"), "[::1]:2222/a/b");
  for (const path of ["/srv/git/x.git", "../x", "./a:b", "file:///srv/x", "C:\\x", "C:/x"]) {
    assert.equal(identityOf(path), null, path);
  }
});

Deno.test("`origin` names the identity, else the first remote, else the path", async () => {
  await using bench = await Bench.make();
  const { work } = await bench.record();
  assert.equal(await bench.vcs.identity(work.path), work.path);
  await work.git("remote", "add", "upstream", "git@example.org:up/stream.git");
  await work.git("remote", "add", "fork", "git@example.org:fo/rk.git");
  assert.equal(await bench.vcs.identity(work.path), "example.org/fo/rk");
  await work.git("remote", "add", "origin", "https://example.org/o/rigin");
  assert.equal(await bench.vcs.identity(work.path), "example.org/o/rigin");
});

Deno.test("checks tell which git runs, that it is too old, or that there is none", async () => {
  await using bench = await Bench.make();
  const [good] = await bench.vcs.checks();
  assert.equal(good?.ok, true);
  assert.match(good.detail, /^git version \d/);
  const says = (stdout: string) =>
    new GitVcs({
      processes: {
        exec: () =>
          Promise.resolve({ code: 0, stdout: new TextEncoder().encode(stdout), stderr: "" }),
      },
      clock: {
        now: () => 0,
        monotonic: () => 0,
        sleep: () => Promise.resolve(),
        after: () => () => {},
      },
      ids: { uuid: () => "", random: () => 0 },
      log: { event: () => {} },
    }).checks();
  for (
    const [version, ok] of [
      ["git version 2.38.9", false],
      ["git version 1.99", false],
      ["git version 2.39.5 (Apple Git-154)", true],
      ["git version 2.51.0.windows.1", true],
      ["git version 3.0.0", true],
    ] as const
  ) assert.equal((await says(version))[0]?.ok, ok, version);
  bench.before = () => {
    throw new Error("No such file");
  };
  const [none] = await bench.vcs.checks();
  assert.equal(none?.ok, false);
  assert.match(none.detail, /does not run \(No such file\): install git 2\.39/);
});

Deno.test("a damaged record is an error that says so, not a commit that is missing", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revision = await work.git("rev-parse", "HEAD");
  await work.git("repack", "-adq");
  for await (const { name } of Deno.readDir(`${work.path}/.git/objects/pack`)) {
    if (!name.endsWith(".pack")) continue;
    await Deno.chmod(`${work.path}/.git/objects/pack/${name}`, 0o600);
    await Deno.truncate(`${work.path}/.git/objects/pack/${name}`, 40);
  }
  const error = await failure(record.has([revision]));
  assert.ok(isError(error, "failed"));
  assert.match(error.message, /cannot be read/);
  const { code } = await exec({ argv: ["git", "fsck"], cwd: work.path });
  assert.notEqual(code, 0);
});
