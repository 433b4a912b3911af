import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { Bench, failure, filesIn, git, gitWith, Work } from "./kit.ts";
import { exec } from "../kit/exec.ts";

Deno.test("an evaluation on a warm replica costs one process, three when its commit is new", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const first = (await record.head()).revision;
  const replica = await bench.replica();
  const supply = { cas: bench.cas, ask: () => Promise.resolve([blob]) };
  let sent = await record.send(bench.cas, [first], []);
  let blob = sent?.blob ?? assert.fail();
  await replica.checkout(first, bench.dir.join("1"), supply);

  const known = await bench.commands(() => replica.checkout(first, bench.dir.join("2"), supply));
  assert.deepEqual(known, ["read-tree"]);
  const removal = await bench.commands(() => replica.discard(bench.dir.join("2")));
  assert.deepEqual(removal, []);

  const second = await work.commit({ "b.txt": "two\n" });
  sent = await record.send(bench.cas, [second], [first]);
  blob = sent?.blob ?? assert.fail();
  const fresh = await bench.commands(() => replica.checkout(second, bench.dir.join("2"), supply));
  // The pin is written while the files are.
  assert.deepEqual(fresh.sort(), ["cat-file", "index-pack", "read-tree", "update-ref"]);
});

Deno.test("a checkout is a detached worktree that git itself knows", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revision = await work.commit({ "run.sh": "#!/bin/sh\n", "deep/er/x": "" });
  await Deno.chmod(`${work.path}/run.sh`, 0o755);
  const executable = await work.commit({});
  const path = bench.dir.join("w");
  await record.checkout(executable, path);
  assert.match(await work.git("worktree", "list"), new RegExp(`${path} +\\w+ \\(detached HEAD\\)`));
  assert.equal(await git(path, "rev-parse", "HEAD"), executable);
  assert.equal(await git(path, "status", "--porcelain"), "");
  assert.equal(((await Deno.stat(`${path}/run.sh`)).mode ?? 0) & 0o111, 0o111);
  await git(path, "checkout", "-q", "--detach", revision);
  assert.equal(await work.git("symbolic-ref", "HEAD"), "refs/heads/main", "the record's own HEAD");
});

Deno.test("what is at the path is removed first: files, a link, a stale worktree", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { revision } = await record.head();
  const path = bench.dir.join("w");
  const outside = bench.dir.join("outside");
  await Deno.mkdir(`${path}/left`, { recursive: true });
  await Deno.writeTextFile(`${path}/left/over`, "x");
  await record.checkout(revision, path);
  assert.deepEqual(await filesIn(path), ["a.txt"]);
  await Deno.writeTextFile(`${path}/a.txt`, "changed");
  await Deno.writeTextFile(`${path}/untracked`, "x");
  await record.checkout(revision, path);
  assert.deepEqual(await filesIn(path), ["a.txt"]);
  assert.equal(await Deno.readTextFile(`${path}/a.txt`), "one\n");

  await record.discard(path);
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${outside}/precious`, "x");
  await Deno.symlink(outside, path);
  await record.checkout(revision, path);
  assert.equal((await Deno.lstat(path)).isSymlink, false);
  assert.deepEqual(await filesIn(outside), ["precious"]);

  // A worktree whose directory somebody removed, and one that git made there itself.
  await Deno.remove(path, { recursive: true });
  await record.checkout(revision, path);
  await record.discard(path);
  await work.git("worktree", "add", "-q", "--detach", path);
  await record.checkout(revision, path);
  assert.equal(await git(path, "status", "--porcelain"), "");
});

Deno.test("many checkouts at once, of one commit and of several, do not disturb each other", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revisions = [(await record.head()).revision];
  for (let i = 1; i < 4; i++) revisions.push(await work.commit({ [`f${i}`]: `${i}\n` }));
  const replica = await bench.replica();
  const ask = bench.asks(record);
  const supply = { cas: bench.cas, ask };
  const paths = Array.from({ length: 12 }, (_, i) => bench.dir.join(`runs/${i}`));
  await Promise.all(paths.map((path, i) => replica.checkout(revisions[i % 4] ?? "", path, supply)));
  for (const [i, path] of paths.entries()) {
    assert.equal((await filesIn(path)).length, 1 + i % 4);
    assert.equal(await git(path, "rev-parse", "HEAD"), revisions[i % 4]);
  }
  assert.equal(ask.asked.filter(({ have }) => have.length === 0).length, 1, "one whole history");
  assert.deepEqual(await replica.checkouts(bench.dir.path), [...paths].sort());
  assert.deepEqual(await replica.checkouts(bench.dir.join("runs/1")), []);
  await Promise.all(paths.map((path) => replica.discard(path)));
  assert.deepEqual(await replica.checkouts(bench.dir.path), []);
  assert.deepEqual(await filesIn(bench.dir.join("runs")), []);
});

Deno.test("discard is repeatable, takes anything, and never the repository itself", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { revision } = await record.head();
  const path = bench.dir.join("w");
  await record.discard(path);
  await record.checkout(revision, path);
  await record.discard(path);
  await record.discard(path);
  assert.doesNotMatch(await work.git("worktree", "list"), /detached/);
  await Deno.mkdir(path);
  await record.discard(path);
  await Deno.writeTextFile(path, "a file");
  await record.discard(path);
  await assert.rejects(Deno.lstat(path), Deno.errors.NotFound);
  for (const at of [work.path, `${work.path}/.git`, bench.dir.path, "/"]) {
    assert.ok(isError(await failure(record.discard(at)), "invalid_request"), at);
  }
  assert.ok(isError(await failure(record.discard("relative")), "invalid_request"));
});

Deno.test("a `.git` file that a job rewrote misleads nobody", async () => {
  await using bench = await Bench.make();
  const { record } = await bench.record();
  const { revision } = await record.head();
  const [path, victim] = [bench.dir.join("w"), bench.dir.join("victim")];
  await record.checkout(revision, path);
  await Deno.mkdir(victim);
  await Deno.writeTextFile(`${victim}/gitdir`, `${path}/.git\n`);
  await Deno.writeTextFile(`${path}/.git`, `gitdir: ${victim}\n`);
  await record.discard(path);
  assert.deepEqual(await filesIn(victim), ["gitdir"]);
  assert.deepEqual(await record.checkouts(bench.dir.path), []);
});

Deno.test("read-only directories that a job left are removed", async () => {
  await using bench = await Bench.make();
  const { record } = await bench.record();
  const path = bench.dir.join("w");
  await record.checkout((await record.head()).revision, path);
  // Root is not held by permissions, so a person without them tries it.
  await Deno.mkdir(`${path}/deep/er`, { recursive: true });
  await Deno.writeTextFile(`${path}/deep/er/file`, "x");
  await Deno.chmod(`${path}/deep/er/file`, 0o400);
  await Deno.chmod(`${path}/deep/er`, 0o500);
  await Deno.chmod(`${path}/deep`, 0o000);
  await record.discard(path);
  await assert.rejects(Deno.lstat(path), Deno.errors.NotFound);
});

Deno.test("a failed checkout leaves nothing behind", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const path = bench.dir.join("w");
  const blob = await work.git("rev-parse", "HEAD:a.txt");
  for (const revision of ["f".repeat(40), blob]) {
    assert.ok(isError(await failure(record.checkout(revision, path)), "failed"));
  }
  for (const bad of ["main", "HEAD", "--orphan=x", "", "F".repeat(40), "f".repeat(39)]) {
    assert.ok(isError(await failure(record.checkout(bad, path)), "invalid_request"), bad);
  }
  assert.ok(isError(await failure(record.checkout("f".repeat(40), "w")), "invalid_request"));
  await assert.rejects(Deno.lstat(path), Deno.errors.NotFound);
  assert.deepEqual(await record.checkouts(bench.dir.path), []);
});

Deno.test("neither hooks nor filters nor a file watcher of the repository run", async () => {
  await using bench = await Bench.make();
  const { work } = await bench.record();
  const trace = bench.dir.join("trace");
  const script = `#!/bin/sh\necho "$0" >>${trace}\ncat\n`;
  await Deno.writeTextFile(bench.dir.join("program"), script, { mode: 0o755 });
  const program = bench.dir.join("program");
  const revision = await work.commit({
    ".gitattributes": "*.up filter=shout\n",
    "x.up": "quiet\n",
  });
  for (
    const hook of [
      "post-checkout",
      "post-index-change",
      "reference-transaction",
      "pre-commit",
      "post-rewrite",
    ]
  ) await Deno.copyFile(program, `${work.path}/.git/hooks/${hook}`);
  await work.git("config", "core.fsmonitor", program);
  await work.git("config", "filter.shout.smudge", program);
  await work.git("config", "filter.shout.required", "true");
  await work.git("config", "filter.other.process", program);
  await work.git("config", "core.sshCommand", program);
  const record = await bench.vcs.open(work.path);
  const path = bench.dir.join("w");
  await record.checkout(revision, path);
  await record.keep(revision, "refs/sublet/kept");
  const replica = await bench.replica();
  await replica.fetch(bench.cas, [revision], bench.asks(record));
  await assert.rejects(Deno.lstat(trace), Deno.errors.NotFound, "no program ran");
  assert.equal(await Deno.readTextFile(`${path}/x.up`), "quiet\n");
  await work.git("checkout", "-q", "--detach").catch(() => {});
  assert.ok((await Deno.stat(trace)).size > 0, "the programs do run when a person runs git");
});

Deno.test("the settings and variables of whoever calls are ignored, and no identity is needed", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const home = bench.dir.join("home");
  await Deno.mkdir(home);
  await Deno.writeTextFile(
    `${home}/.gitconfig`,
    '[core]\n\tautocrlf = true\n\tattributesFile = ~/attributes\n[filter "x"]\n\tsmudge = false\n\trequired\n' +
      "[user]\n\tuseConfigOnly = true\n[index]\n\tversion = 4\n[core]\n\tsplitIndex = true\n",
  );
  await Deno.writeTextFile(`${home}/attributes`, "* filter=x\n");
  const revision = await work.commit({ "b.txt": "two\n" });
  const before = bench.calls.length;
  const path = bench.dir.join("w");
  await record.checkout(revision, path);
  // The very same calls, with a hostile HOME beside them.
  await record.discard(path);
  const again = bench.calls.slice(before).find((spec) => spec.argv.includes("read-tree"));
  assert.ok(again);
  await record.checkout(revision, path);
  await Deno.remove(`${path}/b.txt`);
  const { code } = await exec({
    ...again,
    env: { ...again.env, HOME: home, XDG_CONFIG_HOME: home },
  });
  assert.equal(code, 0);
  assert.equal(await Deno.readTextFile(`${path}/b.txt`), "two\n");
  const names = new Set(bench.calls.flatMap((spec) => Object.keys(spec.env ?? {})));
  assert.ok(!names.has("HOME") && !names.has("GIT_DIR"), [...names].join());
});

Deno.test("a repository of another owner can be opened", async () => {
  await using bench = await Bench.make();
  const { work } = await bench.record();
  if (Deno.uid() !== 0) return;
  await Deno.chown(work.path, 65534, 65534);
  await Deno.chown(`${work.path}/.git`, 65534, 65534);
  await assert.rejects(
    gitWith(work.path, {}, "status"),
    /dubious ownership/,
    "git itself refuses it",
  );
  bench.restarted();
  assert.equal((await (await bench.vcs.open(work.path)).head()).subject, "First");
});

Deno.test("submodules are refused by name, unless the campaign goes on without them", async () => {
  await using bench = await Bench.make();
  const { work } = await bench.record();
  const inner = await Work.make(bench.dir.join("inner"));
  await inner.commit({ "i.txt": "inner\n" });
  await work.git("submodule", "--quiet", "add", inner.path, "lib/inner");
  const revision = await work.seal("Add a submodule");
  const path = bench.dir.join("w");
  const error = await failure(
    (await bench.vcs.open(work.path)).checkout(revision, path),
  );
  assert.ok(isError(error, "failed"));
  assert.match(error.message, /submodule at "lib\/inner".*submodules = "empty"/);
  await assert.rejects(Deno.lstat(path), Deno.errors.NotFound);
  const tolerant = await bench.vcs.open(work.path, { provider: "git", submodules: "empty" });
  await tolerant.checkout(revision, path);
  assert.deepEqual(await filesIn(path), [".gitmodules", "a.txt"]);
});

Deno.test("a file in Git LFS is refused by name, and an attribute alone is not", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const attributed = await work.commit({
    "data/.gitattributes": "*.bin filter=lfs diff=lfs -text\n",
  });
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${
    "0".repeat(64)
  }\nsize 12345\n`;
  const revision = await work.commit({ "data/model.bin": pointer });
  const path = bench.dir.join("w");
  await record.checkout(attributed, path);
  const error = await failure(record.checkout(revision, path));
  assert.ok(isError(error, "failed"));
  assert.match(error.message, /"data\/model.bin" in Git LFS/);
  await (await bench.vcs.open(work.path, { lfs: "pointers" })).checkout(revision, path);
  assert.equal(await Deno.readTextFile(`${path}/data/model.bin`), pointer);
  assert.ok(
    isError(await failure(bench.vcs.open(work.path, { lfs: "maybe" })), "invalid_request"),
  );
});
