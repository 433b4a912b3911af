import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import type { Conflict, Merged, Repository, Version } from "../../lib/vcs/mod.ts";
import { parseConflicts } from "../../lib/vcs/merge.ts";
import { Bench, failure, type Work } from "./kit.ts";

function versionOf(merged: Merged): Version {
  assert.equal(merged.kind, "merged", JSON.stringify(merged));
  if (merged.kind !== "merged") throw new Error("unreachable");
  return merged.version;
}

function conflictsOf(merged: Merged): readonly Conflict[] {
  assert.equal(merged.kind, "conflicts", JSON.stringify(merged));
  return merged.kind === "conflicts" ? merged.conflicts : [];
}

/** A commit of `change` on `base`, on no branch. */
async function on(
  work: Work,
  base: string,
  change: () => Promise<unknown>,
): Promise<string> {
  await work.git("checkout", "-q", "-f", "--detach", base);
  await work.git("clean", "-qfd");
  await change();
  await work.git("add", "-A");
  return await work.seal("Change");
}

const setting = async (): Promise<{ bench: Bench; work: Work; record: Repository }> => {
  const bench = await Bench.make();
  return { bench, ...await bench.record() };
};

Deno.test("a merge is a commit of both parents, without a checkout, hook, identity or signature", async () => {
  const { bench, work, record } = await setting();
  await using _ = bench;
  const base = await work.commit({ "x.txt": "1\n2\n3\n4\n5\n6\n7\n8\n" });
  const onto = await on(work, base, () => work.commit({ "x.txt": "one\n2\n3\n4\n5\n6\n7\n8\n" }));
  const other = await on(
    work,
    base,
    () => work.commit({ "x.txt": "1\n2\n3\n4\n5\n6\n7\neight\n" }),
  );
  await work.git("checkout", "-q", "main");
  await work.git("config", "user.useConfigOnly", "true");
  await work.git("config", "commit.gpgSign", "true");
  await work.git("config", "gpg.program", "/bin/false");
  await Deno.writeTextFile(`${work.path}/.git/hooks/reference-transaction`, "#!/bin/sh\nexit 1\n");
  await Deno.chmod(`${work.path}/.git/hooks/reference-transaction`, 0o755);
  const before = await work.git("for-each-ref");
  const version = versionOf(await record.merge(onto, other, "Merge it\n\nSublet-Note: both"));
  assert.equal(
    await work.git("show", `${version.revision}:x.txt`),
    "one\n2\n3\n4\n5\n6\n7\neight",
  );
  assert.equal(
    await work.git("log", "-1", "--format=%P|%an|%s", version.revision),
    `${onto} ${other}|sublet|Merge it`,
  );
  assert.equal(version.subject, "Merge it");
  assert.equal(await work.git("for-each-ref"), before);
  assert.equal(await work.git("status", "--porcelain"), "");
  assert.equal(await record.contains(version.revision, other), true);
  const [saved] = await record.saved(onto, version.revision);
  assert.deepEqual(saved?.notes, ["both"]);
});

Deno.test("what holds the other already is itself the merge, descended or equal in what it does", async () => {
  const { bench, work, record } = await setting();
  await using _ = bench;
  const base = (await record.head()).revision;
  const onto = await on(work, base, () => work.commit({ "b.txt": "b\n" }));
  const same = await on(work, base, () => work.commit({ "b.txt": "b\n" }, "Again"));
  assert.equal(versionOf(await record.merge(onto, base, "m")).revision, onto);
  assert.equal(versionOf(await record.merge(onto, onto, "m")).revision, onto);
  assert.equal(versionOf(await record.merge(onto, same, "m")).revision, onto);
  const ahead = versionOf(await record.merge(base, onto, "m"));
  assert.equal(await work.git("log", "-1", "--format=%P", ahead.revision), `${base} ${onto}`);
  assert.equal(ahead.tree, (await record.version(onto)).tree);
});

Deno.test("conflicts are told by path and kind, whatever the path", async () => {
  const { bench, work, record } = await setting();
  await using _ = bench;
  const lines = (word: string) => `${word}\n${"line\n".repeat(20)}`;
  const base = await work.commit({
    "both\nlines": lines("base"),
    "gone.txt": "base\n",
    "bin": new Uint8Array([0, 1, 2]),
    "moved.txt": lines("moved"),
    "away.txt": lines("away"),
    "kind": "base\n",
  });
  const move = (from: string, to: string) =>
    Deno.rename(`${work.path}/${from}`, `${work.path}/${to}`);
  const onto = await on(work, base, async () => {
    await work.commit({
      "both\nlines": lines("ours"),
      "gone.txt": "ours\n",
      "bin": new Uint8Array([0, 9]),
    });
    await work.commit({ "added.txt": "ours\n", "d": "a file\n" });
    await move("moved.txt", "here.txt");
    await move("away.txt", "away2.txt");
    await Deno.remove(`${work.path}/kind`);
    await Deno.symlink("a.txt", `${work.path}/kind`);
  });
  const other = await on(work, base, async () => {
    await work.commit({ "both\nlines": lines("theirs"), "bin": new Uint8Array([0, 8]) });
    await work.commit({ "added.txt": "theirs\n", "d/x": "in a directory\n", "kind": "theirs\n" });
    await move("moved.txt", "there.txt");
    await Deno.remove(`${work.path}/gone.txt`);
    await Deno.remove(`${work.path}/away.txt`);
  });
  const found = conflictsOf(await record.merge(onto, other, "m"));
  const kinds = new Map(found.map(({ path, kind }) => [path, kind]));
  assert.equal(kinds.get("both\nlines"), "content");
  assert.equal(kinds.get("added.txt"), "content");
  assert.equal(kinds.get("bin"), "binary");
  assert.equal(kinds.get("gone.txt"), "modify/delete");
  assert.equal(kinds.get("away2.txt"), "rename/delete");
  assert.ok(
    [...kinds].some(([path, kind]) => /moved|here|there/.test(path) && kind === "rename/rename"),
  );
  assert.ok([...kinds].some(([path, kind]) => /^d/.test(path) && kind === "file/directory"));
  assert.ok(
    [...kinds].some(([path, kind]) => /^kind/.test(path) && kind === "type"),
    JSON.stringify(found),
  );
  for (const { message } of found) assert.match(message, /CONFLICT|Cannot merge|cannot be merged/);
});

Deno.test("a copied history merges at the newest state that both hold, with a git that has no --merge-base", async () => {
  const { bench, work, record } = await setting();
  await using _ = bench;
  const base = (await record.head()).revision;
  const change = (text: string) => () => work.commit({ "a.txt": text });
  const first = await on(work, base, change("1\n"));
  const second = await on(work, first, change("2\n"));
  // The same two changes again, as a rebase writes them, and one more.
  const again = await on(work, base, () => work.commit({ "a.txt": "1\n" }, "Copied"));
  const copied = await on(work, again, () => work.commit({ "a.txt": "2\n" }, "Copied"));
  const onto = await on(work, copied, change("3\n"));
  const other = await on(work, second, () => work.commit({ "b.txt": "b\n" }));
  const calls = bench.calls.length;
  const version = versionOf(await record.merge(onto, other, "m"));
  assert.ok(
    !bench.calls.slice(calls).some(({ argv }) => argv.some((arg) => /^--merge-base/.test(arg))),
  );
  assert.equal(await work.git("show", `${version.revision}:a.txt`), "3");
  assert.equal(await work.git("show", `${version.revision}:b.txt`), "b");
  assert.equal(await work.git("log", "-1", "--format=%P", version.revision), `${onto} ${other}`);
  // Both changed since: that is a conflict, at the state they had in common.
  const clash = await on(work, second, change("4\n"));
  assert.deepEqual(conflictsOf(await record.merge(onto, clash, "m")).map(({ path }) => path), [
    "a.txt",
  ]);
});

Deno.test("unrelated histories merge, or conflict where they name one file", async () => {
  const { bench, work, record } = await setting();
  await using _ = bench;
  const onto = (await record.head()).revision;
  await work.git("checkout", "-q", "--orphan", "other");
  await work.git("rm", "-rfq", ".");
  const other = await work.commit({ "b.txt": "b\n" });
  const clash = await work.commit({ "a.txt": "mine\n" });
  const version = versionOf(await record.merge(onto, other, "m"));
  assert.equal(await work.git("ls-tree", "--name-only", version.revision), "a.txt\nb.txt");
  assert.deepEqual(conflictsOf(await record.merge(onto, clash, "m")).map(({ kind }) => kind), [
    "content",
  ]);
});

Deno.test("a merge driver of the repository is not run", async () => {
  const { bench, work } = await setting();
  await using _ = bench;
  const marker = bench.dir.join("ran");
  await work.git("config", "merge.evil.driver", `touch ${marker}; true`);
  await work.git("config", "filter.evil.clean", `touch ${marker}; cat`);
  await work.git("config", "merge.renormalize", "true");
  await Deno.mkdir(`${work.path}/.git/info`, { recursive: true });
  await Deno.writeTextFile(`${work.path}/.git/info/attributes`, "* merge=evil filter=evil\n");
  const base = await work.git("rev-parse", "HEAD");
  const change = (text: string) => on(work, base, () => work.commit({ "a.txt": text }));
  const [onto, other] = [await change("ours\n"), await change("theirs\n")];
  await Deno.remove(marker).catch(() => {});
  const record = await bench.vcs.open(work.path);
  assert.equal((await record.merge(onto, other, "m")).kind, "conflicts");
  assert.equal(await record.contains(onto, other), false);
  await assert.rejects(Deno.lstat(marker), Deno.errors.NotFound);
});

Deno.test("only commits merge, and those that are there", async () => {
  const { bench, record } = await setting();
  await using _ = bench;
  const { revision } = await record.head();
  for (const name of ["main", "--all", "HEAD", ""]) {
    assert.ok(isError(await failure(record.merge(revision, name, "m")), "invalid_request"), name);
    assert.ok(isError(await failure(record.merge(name, revision, "m")), "invalid_request"), name);
  }
  assert.ok(isError(await failure(record.merge(revision, "f".repeat(40), "m")), "not_found"));
});

Deno.test("conflicts are read with any number of paths, and what is odd is not made up", () => {
  const entry = (stage: number, path: string) => `100644 ${"a".repeat(40)} ${stage}\t${path}`;
  const output = [
    "b".repeat(40),
    entry(1, "x"),
    entry(2, "x"),
    entry(3, "y\tz"),
    "",
    "1",
    "x",
    "Auto-merging",
    "Auto-merging x\n",
    "2",
    "w",
    "x",
    "CONFLICT (contents)",
    "CONFLICT (content): Merge conflict\nin x\n",
    "",
  ].join("\0");
  assert.deepEqual(parseConflicts(output), [
    { path: "x", kind: "content", message: "CONFLICT (content): Merge conflict in x" },
    { path: "y\tz", kind: "other", message: "it cannot be merged" },
  ]);
  assert.deepEqual(parseConflicts(""), []);
  assert.deepEqual(parseConflicts("b\0\0nonsense"), []);
});
