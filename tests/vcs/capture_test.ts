import assert from "node:assert/strict";
import { isError, nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { GitFailure, GitVcs } from "../../lib/vcs/mod.ts";
import { exec } from "../kit/exec.ts";
import { Desk } from "./capture_kit.ts";
import { Bench, failure, git } from "./kit.ts";

Deno.test("a checkout that nobody touched brings nothing home, in two processes of git", async () => {
  await using desk = await Desk.make();
  const commands = await desk.bench.commands(async () => {
    const captured = await desk.capture();
    assert.deepEqual(captured, {
      work: null,
      bytes: 0,
      unsaved: null,
      branches: [],
      leftOut: [],
      leftOutCount: 0,
      notes: [],
    });
  });
  assert.deepEqual(commands.sort(), ["diff-files", "ls-files"]);
  assert.equal(await desk.replica.changed(desk.path, desk.base), false);
});

Deno.test("commits come home as they are, oldest first, and nothing is added when all is saved", async () => {
  await using desk = await Desk.make();
  const one = await desk.commit({ "a.txt": "1\n" }, "One\n\nSublet-Eval: skip");
  const two = await desk.commit({ "c.txt": "2\n" }, "Two\n\nSublet-Note: look\n  here\n");
  const { captured, saved } = await desk.home();
  assert.equal(captured.work?.head, two);
  assert.equal(captured.unsaved, null);
  assert.deepEqual(
    saved.map(({ revision, skip, notes, recovered }) => [revision, skip, notes, recovered]),
    [[one, true, [], null], [two, false, ["look here"], null]],
  );
  assert.equal(await desk.replica.changed(desk.path, desk.base), true);
});

Deno.test("unsaved work comes as one commit on top: changed, new, removed, staged, executable, linked", async () => {
  await using desk = await Desk.make({ "dir/b.txt": "two\n", "gone.txt": "g\n", "run.sh": "x\n" });
  const saved = await desk.commit({ "c.txt": "committed\n" });
  await desk.write("a.txt", "changed\n");
  await desk.write("new/deep/er.txt", "new\n");
  await desk.write("staged.txt", "staged\n");
  await desk.git("add", "staged.txt");
  await desk.git("rm", "-q", "--cached", "dir/b.txt");
  await Deno.remove(`${desk.path}/gone.txt`);
  await Deno.chmod(`${desk.path}/run.sh`, 0o755);
  await Deno.symlink("/etc/passwd", `${desk.path}/link`);
  await desk.write(".gitignore", "*.o\nout/\n");
  await desk.write("x.o", "object");
  await desk.write("out/y", "object");
  const before = await desk.git("status", "--porcelain=v2");
  const { captured, saved: versions, files } = await desk.home();
  assert.deepEqual(
    files,
    new Map([
      [".gitignore", "100644 *.o\nout/"],
      ["a.txt", "100644 changed"],
      ["c.txt", "100644 committed"],
      ["dir/b.txt", "100644 two"],
      ["link", "120000 /etc/passwd"],
      ["new/deep/er.txt", "100644 new"],
      ["run.sh", "100755 x"],
      ["staged.txt", "100644 staged"],
    ]),
  );
  assert.deepEqual(versions.map(({ revision }) => revision), [saved, captured.work?.head]);
  assert.equal(captured.unsaved?.revision, captured.work?.head);
  assert.equal(versions[1]?.recovered, "agent");
  assert.equal(await desk.work.git("rev-parse", `${captured.work?.head}^`), saved);
  assert.equal(await desk.git("status", "--porcelain=v2"), before, "the checkout is as it was");
  assert.equal(await desk.git("rev-parse", "HEAD"), saved);
  const again = await desk.capture();
  assert.equal(again.unsaved?.tree, captured.unsaved?.tree, "it can be done again");
});

Deno.test("what was put there from elsewhere is neither taken nor counted as a change", async () => {
  await using desk = await Desk.make({ "data/kept.txt": "kept\n" });
  await desk.write("data/x.bin", "input");
  await desk.write("links/deep/y.bin", "input");
  await desk.write("linksy", "work");
  const ignore = ["data", "./links/deep/", "nothing"];
  await Deno.remove(`${desk.path}/data/kept.txt`);
  assert.equal(
    await desk.replica.changed(desk.path, desk.base, { ignore: [...ignore, "linksy"] }),
    false,
  );
  assert.equal(await desk.replica.changed(desk.path, desk.base, { ignore }), true);
  const { files } = await desk.home({ ignore });
  assert.deepEqual([...files.keys()], ["a.txt", "data/kept.txt", "linksy"]);
});

Deno.test("writing a file again with what it held is no change", async () => {
  await using desk = await Desk.make();
  await desk.write("a.txt", "one\n");
  await Deno.utime(`${desk.path}/dir/b.txt`, 1, 1);
  assert.equal(await desk.replica.changed(desk.path, desk.base), false);
  assert.equal((await desk.capture()).work, null);
});

Deno.test("a change of the same size within the second of the checkout is seen", async () => {
  for (let turn = 0; turn < 3; turn++) {
    await using desk = await Desk.make();
    const info = await Deno.stat(`${desk.path}/a.txt`);
    await desk.write("a.txt", "ONE\n");
    await Deno.utime(`${desk.path}/a.txt`, info.mtime ?? 0, info.mtime ?? 0);
    assert.ok(await desk.replica.changed(desk.path, desk.base));
    const { files } = await desk.home();
    assert.equal(files.get("a.txt"), "100644 ONE");
  }
});

Deno.test("so is one that a commit follows, and that is captured in a later second", async () => {
  const secondOf = (date: Date | null) => Math.floor((date?.getTime() ?? 0) / 1000);
  for (let met = false; !met;) {
    await using desk = await Desk.make();
    const { mtime } = await Deno.stat(`${desk.path}/a.txt`);
    await desk.write("a.txt", "ONE\n");
    met = secondOf((await Deno.stat(`${desk.path}/a.txt`)).ctime) === secondOf(mtime);
    // Else it is seen by its time alone.
    if (!met) continue;
    await desk.write("new.txt", "new");
    await desk.git("add", "new.txt");
    await desk.git("commit", "-q", "-m", "Of another file");
    await new Promise((resolve) => setTimeout(resolve, 1000 - Date.now() % 1000 + 10));
    const { files } = await desk.home();
    assert.equal(files.get("a.txt"), "100644 ONE");
    assert.equal(files.get("new.txt"), "100644 new");
  }
});

const TRAPS: Record<string, (desk: Desk, marker: string) => Promise<unknown>> = {
  "hooks of the repository": async (desk, marker) => {
    const hooks = (await desk.git("rev-parse", "--git-path", "hooks")).trim();
    await Deno.mkdir(hooks, { recursive: true });
    for (
      const name of [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-index-change",
        "reference-transaction",
      ]
    ) {
      await Deno.writeTextFile(`${hooks}/${name}`, `#!/bin/sh\ntouch ${marker}\nexit 1\n`);
      await Deno.chmod(`${hooks}/${name}`, 0o755);
    }
  },
  "a hooks path": (desk, marker) => desk.git("config", "core.hooksPath", `${marker}.d`),
  "filters": async (desk, marker) => {
    for (const kind of ["clean", "smudge", "process"]) {
      await desk.git("config", `filter.evil.${kind}`, `touch ${marker}; cat`);
    }
    await desk.git("config", "filter.evil.required", "true");
    await desk.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
  },
  "diff programs": async (desk, marker) => {
    await desk.git("config", "diff.external", `touch ${marker}`);
    await desk.git("config", "diff.evil.textconv", `touch ${marker}`);
    await desk.git("config", "diff.evil.command", `touch ${marker}`);
    await desk.write(".gitattributes", "* diff=evil\n");
  },
  "a file watcher": (desk, marker) => desk.git("config", "core.fsmonitor", `touch ${marker}`),
  "signing": async (desk, marker) => {
    await desk.git("config", "commit.gpgSign", "true");
    await desk.git("config", "gpg.program", `${marker}.sh`);
  },
  "no identity": (desk) => desk.git("config", "user.useConfigOnly", "true"),
  "settings that cannot be read": async (desk) => {
    const config = await desk.git("rev-parse", "--git-path", "config");
    await Deno.writeTextFile(config, "[core\nbroken");
  },
  "another work tree and other line ends": async (desk) => {
    await desk.git("config", "core.autocrlf", "true");
    await desk.git("config", "core.fileMode", "false");
    await desk.git("config", "core.symlinks", "false");
    await desk.git("config", "core.worktree", "/etc");
  },
  "a lock that was left": async (desk) => {
    const index = await desk.git("rev-parse", "--git-path", "index.lock");
    await Deno.writeTextFile(index, "");
    await Deno.writeTextFile(index.replace("index.lock", "HEAD.lock"), "");
  },
  "an index that is junk": async (desk) => {
    await Deno.writeTextFile(await desk.git("rev-parse", "--git-path", "index"), "junk");
  },
  "files marked as never changed": async (desk) => {
    await desk.git("update-index", "--assume-unchanged", "a.txt");
    await desk.git("update-index", "--skip-worktree", "dir/b.txt");
  },
  "a deleted .git": (desk) => Deno.remove(`${desk.path}/.git`),
  "a .git of another repository": async (desk) => {
    await Deno.remove(`${desk.path}/.git`);
    await desk.git("init", "-q");
  },
  "a .git that leads nowhere": (desk) =>
    Deno.writeTextFile(`${desk.path}/.git`, "gitdir: /nowhere\n"),
};

for (const [what, prepare] of Object.entries(TRAPS)) {
  Deno.test(`unsaved work comes home past ${what}`, async () => {
    await using desk = await Desk.make();
    const marker = desk.bench.dir.join("ran");
    await prepare(desk, marker);
    await desk.write("a.txt", "chang\r\nx\n");
    await desk.write("dir/b.txt", "changed\n");
    await desk.write("new.txt", "new\r\nx\n");
    await Deno.chmod(`${desk.path}/new.txt`, 0o755);
    const { files, captured } = await desk.home();
    await assert.rejects(Deno.lstat(marker), Deno.errors.NotFound, "a program ran");
    assert.equal(files.get("a.txt"), "100644 chang\r\nx");
    assert.equal(files.get("dir/b.txt"), "100644 changed");
    assert.equal(files.get("new.txt"), "100755 new\r\nx");
    assert.deepEqual(captured.leftOut, []);
    assert.ok(await desk.replica.changed(desk.path, desk.base));
  });
}

Deno.test("another job's checkout and the replica are out of a job's reach by git", async () => {
  await using desk = await Desk.make();
  const other = desk.bench.dir.join("runs/2/worktree");
  await desk.replica.checkout(desk.base, other);
  await desk.git("config", "core.hooksPath", "/evil");
  await desk.git("checkout", "-q", "-b", "mine");
  await desk.commit({ "a.txt": "1\n" });
  await desk.git("gc", "-q", "--prune=now");
  assert.equal(await git(other, "config", "--default", "none", "core.hooksPath"), "none");
  assert.equal(await git(other, "branch", "--list", "mine"), "");
  assert.equal(await git(other, "status", "--porcelain"), "");
  await desk.replica.discard(other);
  assert.equal((await desk.home()).saved.length, 1);
});

Deno.test("a branch, an unborn branch and a head that went back bring their files home", async () => {
  await using desk = await Desk.make();
  await desk.git("checkout", "-q", "-b", "topic");
  const on = await desk.commit({ "a.txt": "on topic\n" });
  assert.equal((await desk.home()).captured.work?.head, on);

  await desk.git("checkout", "-q", "--orphan", "fresh");
  await desk.write("a.txt", "fresh\n");
  const unborn = await desk.home();
  assert.match(unborn.captured.notes.join(), /new branch fresh without a commit/);
  assert.equal(unborn.files.get("a.txt"), "100644 fresh");
  assert.equal(unborn.saved.length, 1);
  assert.deepEqual(unborn.captured.branches, [{ name: "heads/topic", revision: on }]);

  const root = await desk.commit({ "a.txt": "root\n" });
  const orphan = await desk.home();
  assert.deepEqual(orphan.saved.map(({ revision }) => revision), [root]);

  await desk.git("checkout", "-q", "-f", "--detach", `${desk.base}~1`);
  const back = await desk.capture();
  assert.equal(back.unsaved, null);
  assert.equal(back.work?.head, desk.base, "what is beyond the base are the branches alone");
  assert.deepEqual(back.branches.map(({ name }) => name), ["heads/fresh", "heads/topic"]);
  await desk.write("a.txt", "from before\n");
  const before = await desk.home();
  assert.equal(before.files.get("a.txt"), "100644 from before");
  assert.equal(before.files.has("dir/b.txt"), false);
});

Deno.test("work on other branches and in stashes comes along by name", async () => {
  await using desk = await Desk.make();
  await desk.git("checkout", "-q", "-b", "side/x");
  const side = await desk.commit({ "side.txt": "s\n" });
  await desk.git("checkout", "-q", "--detach", desk.base);
  await desk.write("a.txt", "stashed 1\n");
  await desk.git("stash", "-q");
  await desk.write("a.txt", "stashed 2\n");
  await desk.git("stash", "-q");
  const captured = await desk.capture();
  assert.equal(captured.work?.head, desk.base);
  assert.deepEqual(captured.branches.map(({ name }) => name), [
    "heads/side/x",
    "stash@{0}",
    "stash@{1}",
  ]);
  assert.ok(captured.work);
  assert.deepEqual(await desk.record.receive(desk.bench.cas, captured.work, desk.base), []);
  assert.equal((await desk.filesOf(side)).get("side.txt"), "100644 s");
  const [, newer, older] = captured.branches;
  assert.equal((await desk.filesOf(older?.revision ?? "")).get("a.txt"), "100644 stashed 1");
  assert.equal((await desk.filesOf(newer?.revision ?? "")).get("a.txt"), "100644 stashed 2");
});

Deno.test("a merge and a rebase in progress come home as they stand, and the branch that was rebased", async () => {
  await using desk = await Desk.make();
  await desk.git("checkout", "-q", "-b", "one");
  const one = await desk.commit({ "a.txt": "ours\n" });
  await desk.git("checkout", "-q", "-b", "two", desk.base);
  const two = await desk.commit({ "a.txt": "theirs\n" });
  await assert.rejects(desk.git("merge", "-q", "one"));
  const merging = await desk.home();
  assert.match(
    merging.files.get("a.txt") ?? "",
    /<<<<<<< HEAD\ntheirs\n=======\nours\n>>>>>>> one/,
  );
  assert.match(merging.captured.notes.join(), /a merge was in progress/);
  assert.equal(await desk.work.git("rev-parse", `${merging.captured.work?.head}^`), two);
  assert.deepEqual(merging.captured.branches, [{ name: "heads/one", revision: one }]);

  await desk.git("merge", "--abort");
  await desk.git("checkout", "-q", "--detach", two);
  await desk.git("branch", "-q", "-D", "two");
  await assert.rejects(desk.git("rebase", "-q", "one"));
  const rebasing = await desk.home();
  assert.match(rebasing.captured.notes.join(), /a rebase was in progress/);
  assert.equal(await desk.work.git("rev-parse", `${rebasing.captured.work?.head}^`), one);
  assert.deepEqual(rebasing.captured.branches, [{ name: "rebase-merge/orig-head", revision: two }]);
});

Deno.test("a repository within the checkout comes home as its files, wherever it is from", async () => {
  await using desk = await Desk.make();
  for (const [name, commits] of [["made", true], ["empty", false], ["deep/er", true]] as const) {
    await desk.write(`${name}/.gitignore`, "*.o\n");
    await desk.write(`${name}/x.c`, `${name}\n`);
    await desk.write(`${name}/x.o`, "object\n");
    await git(`${desk.path}/${name}`, "init", "-q");
    if (!commits) continue;
    await git(`${desk.path}/${name}`, "add", "-A");
    await git(`${desk.path}/${name}`, "commit", "-q", "-m", "Inner");
  }
  await desk.write("deep/er/in/y.c", "inner\n");
  await git(`${desk.path}/deep/er/in`, "init", "-q");
  const { files, captured } = await desk.home();
  assert.deepEqual(
    [...files.keys()],
    ["a.txt", "deep/er/.gitignore", "deep/er/in/y.c", "deep/er/x.c", "dir/b.txt"].concat(
      ["empty/.gitignore", "empty/x.c", "made/.gitignore", "made/x.c"],
    ),
  );
  assert.equal(captured.notes.filter((note) => /repository of its own/.test(note)).length, 4);
  assert.deepEqual(captured.leftOut, []);
});

Deno.test("a repository that the agent committed as a link alone comes home as its files", async () => {
  await using desk = await Desk.make();
  await desk.write("vendor/x.c", "vendored\n");
  await git(`${desk.path}/vendor`, "init", "-q");
  await git(`${desk.path}/vendor`, "add", "-A");
  await git(`${desk.path}/vendor`, "commit", "-q", "-m", "Inner");
  const linked = await desk.commit({});
  const { files, saved } = await desk.home();
  assert.deepEqual(saved.map(({ revision }) => revision === linked), [true, false]);
  assert.equal(files.get("vendor/x.c"), "100644 vendored");
  assert.equal(files.has("vendor"), false);
});

Deno.test("a linked worktree within the checkout comes home as a branch, with its unsaved work", async () => {
  await using desk = await Desk.make();
  await desk.git("worktree", "add", "-q", "-b", "side", ".trees/side");
  await git(`${desk.path}/.trees/side`, "commit", "-q", "--allow-empty", "-m", "Side");
  await Deno.writeTextFile(`${desk.path}/.trees/side/s.txt`, "side\n");
  await desk.write("a.txt", "main\n");
  const { files, captured } = await desk.home();
  assert.deepEqual([...files.keys()], ["a.txt", "dir/b.txt"]);
  const tip = captured.branches.find(({ name }) => name === "worktrees/side");
  assert.ok(tip, JSON.stringify(captured.branches));
  assert.equal((await desk.filesOf(tip.revision)).get("s.txt"), "100644 side");
  assert.equal(await desk.work.git("log", "-1", "--format=%s", `${tip.revision}^`), "Side");
});

Deno.test("a checkout that is not ours, or not there, is told apart from one without work", async () => {
  await using desk = await Desk.make();
  const stranger = failure(desk.replica.capture(desk.bench.cas, desk.work.path, desk.base));
  assert.ok(isError(await stranger, "not_found"));
  const one = await desk.commit({ "a.txt": "1\n" });
  await Deno.remove(desk.path, { recursive: true });
  const gone = await desk.home();
  assert.equal(gone.captured.work?.head, one);
  assert.match(gone.captured.notes.join(), /directory is gone/);
  const outside = desk.bench.dir.join("outside");
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${outside}/secret`, "s");
  await Deno.symlink(outside, desk.path);
  const link = await desk.home();
  assert.equal(link.files.has("secret"), false);
  assert.match(link.captured.notes.join(), /not followed/);
  await Deno.remove(desk.path);
  const parent = desk.path.replace(/\/worktree$/, "");
  await Deno.remove(parent, { recursive: true });
  await Deno.mkdir(`${outside}/worktree`);
  await Deno.writeTextFile(`${outside}/worktree/secret`, "s");
  await Deno.symlink(outside, parent);
  const through = await desk.home();
  assert.equal(through.files.has("secret"), false);
  assert.match(through.captured.notes.join(), /leads elsewhere/);
});

Deno.test("commits that cannot be read cost the history, not the files", async () => {
  await using desk = await Desk.make();
  await desk.commit({ "a.txt": "1\n", "kept.txt": "k\n" });
  const blob = await desk.git("rev-parse", "HEAD:kept.txt");
  const objects = await desk.git("rev-parse", "--git-path", "objects");
  const at = `${objects}/${blob.slice(0, 2)}/${blob.slice(2)}`;
  await Deno.chmod(at, 0o600);
  await Deno.writeTextFile(at, "junk");
  await desk.write("new.txt", "n\n");
  const spoiled = await desk.home();
  assert.equal(spoiled.files.get("kept.txt"), "100644 k");
  assert.equal(spoiled.files.get("new.txt"), "100644 n");
  assert.match(spoiled.captured.notes.join(), /could not be taken in full/);
  await Deno.remove(objects, { recursive: true });
  const gone = await desk.home();
  assert.equal(gone.files.get("a.txt"), "100644 1");
  assert.match(gone.captured.notes.join(), /not there/);
});

Deno.test("a replica that is broken itself still gives the files", async () => {
  await using desk = await Desk.make();
  await desk.write("new.txt", "n\n");
  await Deno.remove(`${desk.replica.path}/objects/pack`, { recursive: true });
  const { files, saved, captured } = await desk.home();
  assert.deepEqual([...files.keys()], ["a.txt", "dir/b.txt", "new.txt"]);
  assert.equal(saved.length, 1);
  assert.match(captured.notes.join(), /on top of nothing/);
});

Deno.test("links among a job's objects, and other stores that it names, are not followed", async () => {
  await using desk = await Desk.make();
  const secret = await desk.work.commit({ "secret.txt": "s\n" });
  const objects = await desk.git("rev-parse", "--git-path", "objects");
  await Deno.writeTextFile(`${objects}/info/alternates`, `${desk.work.path}/.git/objects\n`, {
    append: true,
  });
  await desk.git("checkout", "-q", "--detach", secret);
  const { captured } = await desk.home().catch(async () => ({ captured: await desk.capture() }));
  assert.match(captured.notes.join(), /which is not there/);
  await Deno.remove(`${objects}/pack`, { recursive: true });
  await desk.work.git("repack", "-adq");
  await Deno.symlink(`${desk.work.path}/.git/objects/pack`, `${objects}/pack`);
  const linked = await desk.capture();
  assert.match(linked.notes.join(), /which is not there/);
});

Deno.test("bytes that attributes forbid are taken as they are", async () => {
  await using desk = await Desk.make({
    ".gitattributes": "*.u16 working-tree-encoding=UTF-16\n*.txt eol=crlf\n",
  });
  await desk.write("bad.u16", new Uint8Array([0xd8, 0x00, 0x01]));
  await desk.write("crlf.txt", "a\r\nb\r\n");
  for (let i = 0; i < 20; i++) await desk.write(`ok${i}`, `${i}`);
  const { files, captured } = await desk.home();
  assert.ok(files.has("bad.u16"));
  assert.equal(files.get("crlf.txt"), "100644 a\nb");
  assert.equal(files.size, 24);
  assert.deepEqual(captured.leftOut, []);
});

Deno.test("odd files: large ones and pipes are named, odd names are taken or named", async () => {
  await using desk = await Desk.make();
  await desk.write("large.bin", new Uint8Array(3000));
  await desk.write("small.bin", new Uint8Array(900));
  await desk.write("other.bin", new Uint8Array(900));
  await exec({ argv: ["mkfifo", `${desk.path}/pipe`], cwd: desk.path });
  await Deno.remove(`${desk.path}/dir/b.txt`);
  await exec({ argv: ["mkfifo", `${desk.path}/dir/b.txt`], cwd: desk.path });
  const odd = [
    "line\nbreak",
    "-x",
    ":(top)y",
    "a\\b",
    "tab\t",
    " lead",
    "ü",
    "e\u0301",
    "x".repeat(255),
  ];
  for (const name of odd) await desk.write(name, "o");
  await desk.write("git~1/x", "o");
  await desk.write("A", "o");
  await desk.write("a", "o");
  // A name that is no UTF-8.
  await exec({ argv: ["sh", "-c", "printf o >\"$(printf 'caf\\351')\""], cwd: desk.path });
  const { files, captured } = await desk.home({ maxFileBytes: 2000, maxBytes: 1500 });
  for (const name of odd) assert.ok(files.has(name), name);
  assert.ok(files.has("A") && files.has("a"));
  assert.ok([...files.keys()].some((name) => name.startsWith("caf")));
  assert.equal(files.has("small.bin") !== files.has("other.bin"), true, "one has room");
  const left = new Map(captured.leftOut.map(({ path, reason }) => [path, reason]));
  assert.match(left.get("large.bin") ?? "", /3000 bytes/);
  assert.match(left.get("git~1/x") ?? "", /no such name/);
  assert.match(left.get("dir/b.txt") ?? "", /no file or link/);
  assert.equal(captured.leftOutCount, captured.leftOut.length);
  assert.equal(left.size, 4);
});

Deno.test("more unsaved files than are taken are counted, and a thousand of them named", async () => {
  await using desk = await Desk.make();
  for (let i = 0; i < 1500; i++) await desk.write(`many/${i}`, "");
  const { files, captured } = await desk.home({ maxFiles: 100 });
  assert.equal(files.size, 102);
  assert.equal(captured.leftOutCount, 1400);
  assert.equal(captured.leftOut.length, 1000);
  assert.match(captured.leftOut[0]?.reason ?? "", /over 100 unsaved files/);
});

Deno.test("a directory in place of a file, a file in place of a directory, and a link in place of one", async () => {
  await using desk = await Desk.make({ "d/x": "x\n", "e/y": "y\n", "f": "f\n" });
  await Deno.remove(`${desk.path}/d`, { recursive: true });
  await desk.write("d", "now a file\n");
  await Deno.remove(`${desk.path}/f`);
  await desk.write("f/z", "now a directory\n");
  await Deno.remove(`${desk.path}/e`, { recursive: true });
  await Deno.mkdir(desk.bench.dir.join("elsewhere"));
  await Deno.writeTextFile(desk.bench.dir.join("elsewhere/y"), "secret");
  await Deno.symlink(desk.bench.dir.join("elsewhere"), `${desk.path}/e`);
  const { files } = await desk.home();
  assert.deepEqual(
    files,
    new Map([
      ["a.txt", "100644 one"],
      ["d", "100644 now a file"],
      ["e", `120000 ${desk.bench.dir.join("elsewhere")}`],
      ["f/z", "100644 now a directory"],
    ]),
  );
});

Deno.test("a SHA-256 repository's work comes home too", async () => {
  await using desk = await Desk.make({ "b": "b\n" }, "sha256");
  const one = await desk.commit({ "a.txt": "1\n" });
  await desk.write("c", "c\n");
  const { saved, files } = await desk.home();
  assert.equal(saved.length, 2);
  assert.equal(saved[0]?.revision, one);
  assert.equal(files.get("c"), "100644 c");
});

Deno.test("a full disk fails the capture, and it can be tried again", async () => {
  await using desk = await Desk.make();
  await desk.write("new.txt", "n\n");
  desk.bench.before = (spec) => {
    if (!spec.argv.includes("update-index")) return;
    throw new GitFailure(
      128,
      "error: unable to write file: No space left on device",
      "No space left",
    );
  };
  assert.match((await failure(desk.capture())).message, /No space left/);
  desk.bench.before = () => {};
  assert.equal((await desk.home()).saved.length, 1);
  for (const name of ["sublet-tmp"]) {
    assert.deepEqual(await Array.fromAsync(Deno.readDir(`${desk.replica.path}/${name}`)), []);
  }
});

Deno.test("jobs at once on one replica each bring their own work home, while others come and go", async () => {
  await using desk = await Desk.make();
  const { replica, record, bench, base } = desk;
  const supply = { cas: bench.cas, ask: bench.asks(record) };
  const next = await desk.work.commit({ "later.txt": "l\n" });
  const one = async (i: number): Promise<string> => {
    const path = bench.dir.join(`runs/many-${i}/worktree`);
    await replica.checkout(i % 3 === 0 ? next : base, path, supply);
    await Deno.writeTextFile(`${path}/mine.txt`, `${i}\n`);
    await git(path, "checkout", "-q", "-b", "mine");
    if (i % 2 === 0) {
      await git(path, "add", "-A");
      await git(path, "commit", "-q", "-m", `Number ${i}`);
    }
    const { work, branches } = await replica.capture(bench.cas, path, i % 3 === 0 ? next : base);
    assert.ok(work);
    assert.deepEqual(branches, []);
    await replica.discard(path);
    await record.receive(bench.cas, work, base);
    return await desk.work.git("show", `${work.head}:mine.txt`);
  };
  const found = await Promise.all(Array.from({ length: 8 }, (_, i) => one(i)));
  assert.deepEqual(found, Array.from({ length: 8 }, (_, i) => `${i}`));
  assert.deepEqual(await replica.checkouts("/"), [desk.path]);
});

const other = Deno.uid() === 0 && await Deno.stat("/usr/bin/setpriv").then(() => true, () => false)
  ? ""
  : " (SKIPPED: it takes root and setpriv to run git as another user)";

Deno.test({
  name: `files that the job closed are taken, and those of another user are named${other}`,
  ignore: other !== "",
  async fn() {
    const before = Deno.umask(0);
    await using _ = { [Symbol.asyncDispose]: async () => void await Deno.umask(before) };
    await using bench = await Bench.make();
    await Deno.chmod(bench.dir.path, 0o777);
    const { work, record } = await bench.record();
    const base = await work.commit({ "closed/tracked": "t\n", "b": "b\n" });
    const nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    const script = 'exec <"$1" || exit 126; shift; exec "$@"';
    const vcs = new GitVcs({
      processes: {
        exec({ stdin, ...spec }) {
          if (stdin === undefined || stdin instanceof Uint8Array) {
            const given = stdin === undefined ? {} : { stdin };
            return exec({ ...spec, ...given, argv: [...nobody, ...spec.argv] });
          }
          // The file is opened by whom git runs as.
          const shell = ["/bin/sh", "-c", script, "sh", stdin.path];
          return exec({ ...spec, argv: [...nobody, ...shell, ...spec.argv] });
        },
      },
      clock: systemClock,
      ids: systemIds,
      log: nullLog,
    });
    const replica = await vcs.replica(bench.dir.join("clones/1"));
    const path = bench.dir.join("runs/1/worktree");
    await replica.checkout(base, path, { cas: bench.cas, ask: bench.asks(record) });
    for (const name of ["secret", "closed/new", "theirs"]) {
      await Deno.writeTextFile(`${path}/${name}`, `${name}\n`);
      if (name !== "theirs") await Deno.chown(`${path}/${name}`, 65534, 65534);
    }
    await Deno.chmod(`${path}/secret`, 0);
    await Deno.chmod(`${path}/theirs`, 0o600);
    await Deno.chown(`${path}/closed`, 65534, 65534);
    await Deno.writeTextFile(`${path}/closed/tracked`, "changed\n");
    await Deno.chmod(`${path}/closed`, 0);
    const { work: sent, leftOut } = await replica.capture(bench.cas, path, base);
    assert.ok(sent);
    await record.receive(bench.cas, sent, base);
    const names = ["secret", "closed/new", "closed/tracked", "theirs", "b"];
    assert.deepEqual(await record.untracked(sent.head, names), ["theirs"]);
    assert.equal(await work.git("show", `${sent.head}:closed/tracked`), "changed");
    assert.equal(leftOut.length, 1);
    assert.equal(leftOut[0]?.path, "theirs");
    assert.match(leftOut[0]?.reason ?? "", /Permission denied/);
  },
});

Deno.test("inputs of any name are passed over when the agent adds all files, and nothing else is", async () => {
  await using desk = await Desk.make();
  const inputs = ["data", "a b ", "we[i]rd*?", "!bang", "#hash", "dir/inner", "back"];
  for (const name of [...inputs, "data2", "x/data", "weird", "dir/other"]) {
    await desk.write(`${name}/file`, "x");
  }
  await desk.replica.passOver(desk.path, inputs);
  await desk.commit({ "own.txt": "own\n" });
  const { files, captured } = await desk.home({ ignore: inputs });
  assert.equal(captured.unsaved, null);
  assert.deepEqual(
    [...files.keys()],
    ["a.txt", "data2/file", "dir/b.txt", "dir/other/file", "own.txt", "weird/file", "x/data/file"],
  );
});

Deno.test("a linked worktree beside the checkout comes home too, one outside of the job's directory does not", async () => {
  await using desk = await Desk.make();
  const outside = desk.bench.dir.join("outside");
  for (const path of ["../beside", outside]) {
    await desk.git("worktree", "add", "-q", "--detach", path);
  }
  const beside = desk.path.replace(/worktree$/, "beside");
  await Deno.writeTextFile(`${beside}/b.txt`, "beside\n");
  await Deno.writeTextFile(`${outside}/o.txt`, "outside\n");
  const { work, branches } = await desk.capture();
  assert.deepEqual(branches.map(({ name }) => name), ["worktrees/beside"]);
  assert.ok(work);
  await desk.record.receive(desk.bench.cas, work, desk.base);
  assert.equal((await desk.filesOf(branches[0]?.revision ?? "")).get("b.txt"), "100644 beside");
});

Deno.test("a checkout of the repo of record brings its work home as well", async () => {
  await using desk = await Desk.make();
  const path = desk.bench.dir.join("linked");
  await desk.record.checkout(desk.base, path);
  assert.equal(await desk.record.changed(path, desk.base), false);
  assert.equal((await desk.record.capture(desk.bench.cas, path, desk.base)).work, null);
  await git(path, "commit", "-q", "--allow-empty", "-m", "One");
  await Deno.writeTextFile(`${path}/new.txt`, "new\n");
  const { work, unsaved, branches } = await desk.record.capture(desk.bench.cas, path, desk.base);
  assert.ok(work);
  assert.deepEqual(branches, []);
  assert.equal(unsaved?.revision, work.head);
  assert.equal((await desk.record.receive(desk.bench.cas, work, desk.base)).length, 2);
  assert.equal(await desk.record.changed(path, desk.base), true);
});

Deno.test("another base than the checkout was made of is what the work is beyond", async () => {
  await using desk = await Desk.make();
  const before = await desk.work.git("rev-parse", `${desk.base}~1`);
  assert.equal(await desk.replica.changed(desk.path, before), true);
  await desk.write("new.txt", "new\n");
  const { work } = await desk.replica.capture(desk.bench.cas, desk.path, before);
  assert.ok(work);
  const saved = await desk.record.receive(desk.bench.cas, work, before);
  assert.deepEqual(saved.map(({ revision }) => revision), [desk.base, work.head]);
});

Deno.test("a submodule that was left empty stays one, and files in its directory are named", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const { work: inner } = await bench.record("inner");
  await work.git("submodule", "--quiet", "add", inner.path, "sub");
  const base = await work.commit({});
  const table = { submodules: "empty" };
  const replica = await bench.vcs.replica(bench.dir.join("clones/1"), table);
  const path = bench.dir.join("runs/1/worktree");
  await replica.checkout(base, path, { cas: bench.cas, ask: bench.asks(record) });
  assert.equal(await replica.changed(path, base), false);
  assert.equal((await replica.capture(bench.cas, path, base)).work, null);
  await Deno.writeTextFile(`${path}/sub/file`, "x");
  await Deno.writeTextFile(`${path}/new`, "x");
  const captured = await replica.capture(bench.cas, path, base);
  assert.ok(captured.work);
  await record.receive(bench.cas, captured.work, base);
  assert.match(await work.git("ls-tree", captured.work.head, "sub"), /^160000/);
  assert.deepEqual(captured.leftOut.map(({ path }) => path), ["sub"]);
});

Deno.test("work survives the worker: a new process finds the checkout, whatever the job removed of it", async () => {
  await using desk = await Desk.make();
  const one = await desk.commit({ "a.txt": "1\n" });
  await Deno.remove(desk.path, { recursive: true });
  desk.bench.restarted();
  const replica = await desk.bench.replica();
  assert.deepEqual(await replica.checkouts("/"), [desk.path]);
  assert.equal((await replica.capture(desk.bench.cas, desk.path, desk.base)).work?.head, one);
  await Deno.remove(desk.path.replace(/\/worktree$/, ""), { recursive: true });
  desk.bench.restarted();
  assert.deepEqual(await (await desk.bench.replica()).checkouts("/"), []);
});

Deno.test("a transfer that a worker made up is refused whole, and names what is wrong", async () => {
  await using desk = await Desk.make();
  await desk.write("new.txt", "n\n");
  const { work } = await desk.capture();
  assert.ok(work);
  const bytes = await desk.bench.cas.get(work.blob);
  assert.ok(bytes);
  for (
    const harm of [bytes.subarray(0, bytes.length - 30), new TextEncoder().encode("no bundle")]
  ) {
    const blob = await desk.bench.cas.put(new Uint8Array(harm));
    const error = await failure(desk.record.receive(desk.bench.cas, { ...work, blob }, desk.base));
    assert.ok(isError(error, "failed"), String(error));
    assert.deepEqual(await desk.record.has([work.head]), new Set());
  }
  const other = await failure(
    desk.record.receive(desk.bench.cas, { ...work, head: "f".repeat(40) }, desk.base),
  );
  assert.ok(isError(other, "failed"));
  for (const head of ["HEAD", "--all", "", "refs/heads/main"]) {
    const error = await failure(desk.record.receive(desk.bench.cas, { ...work, head }, desk.base));
    assert.ok(isError(error, "invalid_request"), head);
  }
});

Deno.test("a job's repository that leads to another one is not read, nor written to", async () => {
  await using desk = await Desk.make();
  const secret = await desk.work.commit({ "secret.txt": "s\n" });
  await desk.write("new.txt", "n\n");
  const gitDir = (await Deno.readTextFile(`${desk.path}/.git`)).slice("gitdir: ".length).trim();
  await Deno.rename(gitDir, `${gitDir}.aside`);
  await Deno.symlink(`${desk.work.path}/.git`, gitDir);
  const { captured, files } = await desk.home();
  assert.match(captured.notes.join(), /repository is gone/);
  assert.deepEqual([...files.keys()], ["a.txt", "dir/b.txt", "new.txt"]);
  await assert.rejects(
    Deno.lstat(`${desk.work.path}/.git/objects/info/alternates`),
    Deno.errors.NotFound,
  );
  assert.equal(await desk.work.git("rev-parse", "HEAD"), secret);
  assert.equal(await desk.replica.changed(desk.path, desk.base), true);
});

Deno.test("pipes among a job's refs and objects are no trap, and what cannot be told is a change", async () => {
  await using desk = await Desk.make();
  const one = await desk.commit({ "c.txt": "1\n" });
  const gitDir = (await Deno.readTextFile(`${desk.path}/.git`)).slice("gitdir: ".length).trim();
  await Deno.mkdir(`${gitDir}/objects/00`, { recursive: true });
  for (
    const name of [
      "refs/heads/pipe",
      "packed-refs",
      "MERGE_HEAD",
      "refs/stash",
      "objects/pack/pack-0.idx",
      `objects/00/${"0".repeat(38)}`,
      "objects/info/commit-graph",
    ]
  ) {
    const { code } = await exec({ argv: ["mkfifo", `${gitDir}/${name}`], cwd: gitDir });
    assert.equal(code, 0, name);
  }
  await Deno.remove(`${gitDir}/info`, { recursive: true });
  await exec({ argv: ["mkfifo", `${gitDir}/info`], cwd: gitDir });
  const { captured } = await desk.home();
  assert.equal(captured.work?.head, one);
  assert.equal(await desk.replica.changed(desk.path, desk.base), true);
  await Deno.remove(`${gitDir}/HEAD`);
  await exec({ argv: ["mkfifo", `${gitDir}/HEAD`], cwd: gitDir });
  const { captured: headless } = await desk.home();
  assert.match(headless.notes.join(), /HEAD cannot be read/);

  await using other = await Desk.make();
  const its = (await Deno.readTextFile(`${other.path}/.git`)).slice("gitdir: ".length).trim();
  await Deno.writeTextFile(`${its.replace(/\/git$/, "")}/index`, "junk");
  assert.equal(await other.replica.changed(other.path, other.base), true);
  assert.equal((await other.capture()).work, null, "looked at in full it is as it was");
});

Deno.test("a worker that is killed at any call of git while it captures loses nothing of the work", async () => {
  await using desk = await Desk.make();
  const one = await desk.commit({ "c.txt": "committed\n" });
  await desk.git("branch", "side");
  await desk.write("new.txt", "unsaved\n");
  await Deno.remove(`${desk.path}/a.txt`);
  await desk.write("inner/x", "x\n");
  await git(`${desk.path}/inner`, "init", "-q");
  const store = desk.bench.dir.join("store");
  const script = new URL("./killed_capture_child.ts", import.meta.url).pathname;
  for (let call = 1, ended = false; !ended; call++) {
    const child = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", script, desk.replica.path, store, desk.path, desk.base]
        .concat(
          `${call}`,
        ),
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).output();
    ended = child.signal !== "SIGKILL";
    if (ended) assert.equal(child.code, 0, new TextDecoder().decode(child.stderr));
    assert.ok(call < 40, "it never ends");
    desk.bench.restarted();
    const replica = await desk.bench.replica();
    const { work, notes } = await replica.capture(desk.bench.cas, desk.path, desk.base);
    assert.ok(work);
    assert.equal(notes.length, 1, notes.join());
    const saved = await desk.record.receive(desk.bench.cas, work, desk.base);
    assert.deepEqual(saved.map(({ revision }) => revision), [one, work.head]);
    const files = await desk.filesOf(work.head);
    assert.deepEqual([...files.keys()], ["c.txt", "dir/b.txt", "inner/x", "new.txt"]);
  }
  assert.deepEqual(
    await Array.fromAsync(Deno.readDir(`${desk.replica.path}/sublet-tmp`)),
    [],
  );
});
