import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { readMessage } from "../../lib/vcs/saved.ts";
import { Bench, failure } from "./kit.ts";

Deno.test("versions are those along first parents, oldest first: what was merged in is none", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const base = (await record.head()).revision;
  const one = await work.commit({ "1": "1" }, "One");
  await work.git("checkout", "-q", "-b", "side", base);
  await work.commit({ "s": "s" }, "Side");
  await work.git("checkout", "-q", "main");
  await work.git("merge", "-q", "--no-ff", "-m", "Merge", "side");
  const merge = await work.git("rev-parse", "HEAD");
  const two = await work.commit(
    { "2": "2" },
    "Two\n\nSublet-Eval: SKIP\nPiloop-Note: a\nsublet-note:  b ",
  );
  const saved = await record.saved(base, two);
  assert.deepEqual(saved.map(({ revision }) => revision), [one, merge, two]);
  assert.deepEqual(saved.map(({ skip }) => skip), [false, false, true]);
  assert.deepEqual(saved[2]?.notes, ["a", "b"]);
  assert.deepEqual(saved[2]?.tree, (await record.head()).tree);
  assert.deepEqual((await record.saved(base, two, 2)).map(({ revision }) => revision), [
    merge,
    two,
  ]);
  assert.deepEqual(await record.saved(two, two), []);
  assert.deepEqual(await record.saved(two, base), []);
  assert.ok(isError(await failure(record.saved("main", two)), "invalid_request"));
  assert.ok(isError(await failure(record.saved(base, "f".repeat(40))), "failed"));
});

Deno.test("a message is read for its fields, wherever they stand after the subject", () => {
  const nothing = { skip: false, notes: [], recovered: null };
  assert.deepEqual(readMessage(""), nothing);
  assert.deepEqual(readMessage("Sublet-Eval: skip"), nothing, "a subject is none");
  assert.deepEqual(readMessage("S\n\nsublet-eval:skip\n\nMore"), { ...nothing, skip: true });
  assert.deepEqual(readMessage("S\nPILOOP-EVAL: skip"), { ...nothing, skip: true });
  assert.deepEqual(readMessage("S\n\nSublet-Eval: later\nNot-Sublet-Eval: skip"), nothing);
  assert.deepEqual(
    readMessage("S\n\nSublet-Note: one\n\ttwo\n three\nfour\n five\nSublet-Note:\n"),
    {
      ...nothing,
      notes: ["one two three"],
    },
  );
  assert.deepEqual(readMessage("S\n\nPiloop-Recovered: run#7\n"), {
    ...nothing,
    recovered: "run#7",
  });
});

Deno.test("what was kept under a prefix is listed in the order of its numbers", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const revisions: string[] = [];
  for (let i = 0; i < 12; i++) {
    const revision = await work.commit({ n: `${i}` }, `Number ${i}`);
    revisions.push(revision);
    await record.keep(revision, `refs/sublet/1/r7/${i}`);
  }
  await record.keep(revisions[0] ?? "", "refs/sublet/1/r70/0");
  await record.keep(revisions[0] ?? "", "refs/sublet/2/r7/0");
  await work.git("pack-refs", "--all");
  await work.git("update-ref", "refs/sublet/1/r7/tree", "HEAD^{tree}");
  const kept = await record.kept("refs/sublet/1/r7/");
  assert.deepEqual(kept.map(({ revision }) => revision), revisions);
  assert.equal(kept[11]?.subject, "Number 11");
  assert.deepEqual(await record.kept("refs/sublet/3/"), []);
  for (
    const prefix of ["refs/sublet/1/r7", "", "refs/", "../", "refs/sublet/*/", "refs/heads/\n/"]
  ) {
    assert.ok(isError(await failure(record.kept(prefix)), "invalid_request"), prefix);
  }
});
