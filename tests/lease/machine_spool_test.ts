/** @module The spool on disk: whole entries or none, whoever reads them, and nothing in its way. */

import assert from "node:assert/strict";
import type { Log } from "../../lib/home/mod.ts";
import { FileSpool } from "../../lib/lease/machine/spool_files.ts";
import type { SpoolEntry } from "../../lib/lease/spool.ts";
import { TempDir } from "../kit/mod.ts";

/** A spool, and what it logs. */
async function fresh() {
  const dir = await TempDir.make();
  const events: string[] = [];
  const log: Log = { event: (event) => void events.push(event) };
  return { dir, events, spool: new FileSpool(dir.path, log) };
}

function entry(lease: number, requestId = `id-${lease}`): SpoolEntry {
  const report = { kind: "evaluation", samples: [{ metrics: { a: 1 }, seconds: 2 }] };
  return { lease, requestId, outcome: { report }, job: { kind: "evaluation", place: "x" } };
}

Deno.test("an entry is read as it was kept, by a later process, in order of leases", async () => {
  const { dir, events, spool } = await fresh();
  await using _dir = dir;
  await spool.keep("desk", entry(20));
  await spool.keep("desk", { ...entry(3), outcome: { lost: "its disk died" }, job: null });
  const other = new FileSpool(dir.path, { event: (event) => void events.push(event) });
  assert.deepEqual(await other.load("desk"), [
    { ...entry(3), outcome: { lost: "its disk died" }, job: null },
    entry(20),
  ]);
  assert.deepEqual(events, []);
});

Deno.test("an entry is one file of piloop's shape, which nobody else can read", async () => {
  const { dir, spool } = await fresh();
  await using _dir = dir;
  await spool.keep("desk", entry(20));
  const path = dir.join("spool/desk/20.json");
  const { request_id, report, job, ...rest } = JSON.parse(await Deno.readTextFile(path));
  assert.deepEqual([request_id, report.kind, job.place, rest], ["id-20", "evaluation", "x", {}]);
  assert.equal(((await Deno.stat(path)).mode ?? 0) & 0o077, 0);
  assert.deepEqual([...Deno.readDirSync(dir.join("spool/desk"))].map((each) => each.name), [
    "20.json",
  ]);
});

Deno.test("an entry that is kept again replaces the first, and one that is dropped is gone", async () => {
  const { dir, spool } = await fresh();
  await using _dir = dir;
  await spool.keep("desk", entry(1, "first"));
  await spool.keep("desk", entry(1, "second"));
  assert.deepEqual((await spool.load("desk")).map((each) => each.requestId), ["second"]);
  await spool.drop("desk", 1);
  await spool.drop("desk", 1);
  assert.deepEqual(await spool.load("desk"), []);
});

Deno.test("workers that share a home do not see each other's entries", async () => {
  const { dir, spool } = await fresh();
  await using _dir = dir;
  await spool.keep("desk", entry(1));
  await spool.keep("attic", entry(2));
  assert.deepEqual((await spool.load("desk")).map((each) => each.lease), [1]);
  assert.deepEqual((await spool.load("attic")).map((each) => each.lease), [2]);
  assert.deepEqual(await spool.load("nobody"), []);
});

Deno.test("what cannot be read is set aside and logged, and the rest is read", async () => {
  const { dir, events, spool } = await fresh();
  await using _dir = dir;
  await spool.keep("desk", entry(9));
  const bad: Record<string, string> = {
    "1.json": '{"request_id": "x", "repo',
    "2.json": "[]",
    "3.json": '{"request_id": "", "report": {"kind": "evaluation"}}',
    "4.json": '{"request_id": "x"}',
    "5.json": '{"request_id": "x", "report": {"kind": "e"}, "lost": "both"}',
    "6.json": '{"request_id": "x", "report": "none"}',
  };
  for (const [name, text] of Object.entries(bad)) {
    await Deno.writeTextFile(dir.join("spool/desk", name), text);
  }
  assert.deepEqual((await spool.load("desk")).map((each) => each.lease), [9]);
  assert.deepEqual(events, Object.keys(bad).map(() => "spool.quarantined"));
  const names = [...Deno.readDirSync(dir.join("spool/desk"))].map((each) => each.name).sort();
  assert.deepEqual(names, [...Object.keys(bad).map((name) => `${name}.bad`), "9.json"]);
  assert.deepEqual((await spool.load("desk")).map((each) => each.lease), [9]);
});

Deno.test("half of a write that a crash left is removed, and nothing that is not ours", async () => {
  const { dir, spool } = await fresh();
  await using _dir = dir;
  await spool.keep("desk", entry(9));
  await Deno.writeTextFile(dir.join("spool/desk/.abc.part"), "{");
  await Deno.writeTextFile(dir.join("spool/desk/notes.txt"), "mine");
  assert.deepEqual((await spool.load("desk")).map((each) => each.lease), [9]);
  const names = [...Deno.readDirSync(dir.join("spool/desk"))].map((each) => each.name).sort();
  assert.deepEqual(names, ["9.json", "notes.txt"]);
});

Deno.test("an entry that the server cannot take is set aside for a person", async () => {
  const { dir, spool } = await fresh();
  await using _dir = dir;
  await spool.keep("desk", entry(7));
  await spool.setAside("desk", 7);
  await spool.setAside("desk", 7);
  assert.deepEqual(await spool.load("desk"), []);
  assert.match(await Deno.readTextFile(dir.join("spool/desk/7.json.bad")), /id-7/);
});

Deno.test("a name that leads elsewhere, or a link in the place of a directory, is refused", async () => {
  const { dir, spool } = await fresh();
  await using _dir = dir;
  for (const name of ["..", ".", "a/b", "/etc", "", "a\0b", "a\\b"]) {
    await assert.rejects(spool.keep(name, entry(1)), /directory/, JSON.stringify(name));
    await assert.rejects(spool.load(name));
  }
  await Deno.mkdir(dir.join("spool"));
  await Deno.mkdir(dir.join("elsewhere"));
  await Deno.symlink(dir.join("elsewhere"), dir.join("spool/desk"));
  await assert.rejects(spool.keep("desk", entry(1)));
  assert.deepEqual([...Deno.readDirSync(dir.join("elsewhere"))], []);
});

Deno.test({
  name: "an entry that cannot be read for want of files is left as it is, and read later",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const { dir, spool } = await fresh();
    await using _dir = dir;
    await spool.keep("desk", entry(9));
    const starved = new URL("machine_spool_starved.ts", import.meta.url).pathname;
    const { stdout } = await new Deno.Command("sh", {
      args: ["-c", 'ulimit -n 200; exec "$0" "$@"', Deno.execPath(), "run", "-A", "--no-check"]
        .concat(starved, dir.path),
    }).output();
    assert.deepEqual(JSON.parse(new TextDecoder().decode(stdout)), {
      came: ["9", "refused"],
      events: [],
    });
    assert.deepEqual((await spool.load("desk")).map((each) => each.lease), [9]);
  },
});
