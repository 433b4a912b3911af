/** @module `sublet cas check` as a process: what it names, what it mends, and the contract of a served store. */

import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type Cid, openDisk, storeTree } from "../../lib/cas/mod.ts";
import { findNeeds } from "../../lib/cli/cas_needs.ts";
import { selfCommand } from "../../lib/cli/self.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { damageObject } from "../cas/disk_kit.ts";
import { TempDir } from "../kit/mod.ts";

const text = (value: string) => new TextEncoder().encode(value);

function command(home: string, args: string[], env: Record<string, string> = {}) {
  const [program = "", ...argv] = selfCommand(args);
  return new Deno.Command(program, {
    args: argv,
    env: { SUBLET_HOME: home, ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

async function sublet(home: string, args: string[], env?: Record<string, string>) {
  const { code, stdout, stderr } = await command(home, args, env).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** A database of a server, in which a job, an evaluation and a lease name blobs. */
async function makeDatabase(path: string, job: Cid, files: Record<string, Cid>): Promise<void> {
  await using _made = await openSqlite(path);
  const db = new DatabaseSync(path);
  try {
    db.exec("PRAGMA foreign_keys = OFF");
    db.prepare(
      `INSERT INTO jobs (id, kind, key, job_cid, lane, priority, max_attempts, created_at)
       VALUES (12, 'evaluation', 'k', ?, 'l', 0, 1, 0)`,
    ).run(job);
    db.prepare(
      `INSERT INTO evaluations (id, campaign, candidate, evaluator, repeats, required, files, requested_at)
       VALUES (7, 1, 1, 'e', 1, '[]', ?, 0)`,
    ).run(JSON.stringify(files));
    // More rows than one read takes.
    const insert = db.prepare(
      "INSERT INTO evaluation_units (evaluation, side, run, units) VALUES (7, 'bar', ?, ?)",
    );
    db.exec("BEGIN");
    for (let run = 0; run < 1200; run++) {
      insert.run(run, run === 1100 ? (files["log"] ?? "") : "bafkr4i");
    }
    db.exec("COMMIT");
  } finally {
    db.close();
  }
}

Deno.test("damaged and missing blobs are named, with what needs them", async () => {
  await using home = await TempDir.make();
  await using cas = await openDisk({ path: home.join("store") });
  const [log, unneeded] = [await cas.put(text("a log")), await cas.put(text("nobody's"))];
  const input = await cas.put(text("input"));
  const job = await cas.put(text(JSON.stringify({ run: "python", inputs: { data: input } })));
  await makeDatabase(home.join("sublet.db"), job, { log });
  assert.equal((await sublet(home.path, ["cas", "check"])).code, 0);
  for (const cid of [log, unneeded, input]) await damageObject(home.join("store"), cid, "flipped");
  const { code, stdout, stderr } = await sublet(home.path, ["cas", "check"]);
  assert.equal(code, 9, stderr);
  assert.deepEqual(
    stdout.trim().split("\n").sort(),
    [
      `corrupt\t${log}\tevaluation 7, evaluation unit 7/bar/1100`,
      `corrupt\t${unneeded}`,
      `corrupt\t${input}\tjob 12`,
    ].sort(),
  );
  assert.match(stderr, /1 ok, 3 corrupt, 0 missing/);
  const one = await sublet(home.path, ["cas", "check", "--json", log, job]);
  assert.equal(one.code, 9);
  assert.deepEqual(JSON.parse(one.stdout), {
    ok: 1,
    missing: [],
    corrupt: [log],
    altered: [],
    mended: [],
    needed_by: { [log]: ["evaluation 7", "evaluation unit 7/bar/1100"] },
  });
  // The next put of the same bytes mends it.
  await cas.put(text("a log"));
  assert.equal((await sublet(home.path, ["cas", "check", log])).code, 0);
});

Deno.test("what a manifest names is needed by whatever names the manifest", async () => {
  await using home = await TempDir.make();
  await using cas = await openDisk({ path: home.join("store") });
  await Deno.mkdir(home.join("tree/data"), { recursive: true });
  await Deno.writeTextFile(home.join("tree/data/train.csv"), "1,2,3");
  const tree = await storeTree(cas, home.join("tree"));
  const job = await cas.put(text(JSON.stringify({ workspace: tree.manifest })));
  await makeDatabase(home.join("sublet.db"), job, {});
  const [file, other] = [await cas.put(text("1,2,3")), await cas.put(text("other"))];
  const wanted = [file, tree.manifest, other];
  const needs = await findNeeds(home.join("sublet.db"), cas, wanted);
  assert.deepEqual(needs.of(file), ["job 12 (data/train.csv)"]);
  assert.deepEqual(needs.of(tree.manifest), ["job 12"]);
  assert.deepEqual(needs.of(other), []);
  assert.deepEqual((await findNeeds(home.join("none.db"), cas, wanted)).of(file), []);
});

Deno.test("--repair mends a cache from its other tier, and says what it could not", async () => {
  await using home = await TempDir.make();
  await Deno.writeTextFile(
    home.join("config.toml"),
    '[plugins.cas]\nprovider = "cached"\nlocal = "here"\nremote = { provider = "disk", path = "there" }\n',
  );
  await Deno.writeTextFile(home.join("one"), "one");
  await Deno.writeTextFile(home.join("two"), "two");
  const put = await sublet(home.path, ["cas", "put", home.join("one"), home.join("two")]);
  const [one = "", two = ""] = put.stdout.trim().split("\n") as Cid[];
  for (const root of ["here", "there"]) await damageObject(home.join(root), two as Cid, "empty");
  await damageObject(home.join("here"), one as Cid, "truncated");
  assert.equal((await sublet(home.path, ["cas", "check"])).code, 9);
  const repaired = await sublet(home.path, ["cas", "check", "--repair"]);
  assert.equal(repaired.code, 9);
  assert.deepEqual(repaired.stdout.trim().split("\n"), [`mended\t${one}`, `corrupt\t${two}`]);
  assert.match(repaired.stderr, /no tier has a whole copy/);
  assert.equal((await sublet(home.path, ["cas", "check", one])).code, 0);
});

Deno.test("wrong combinations of the options are refused with what to do", async () => {
  await using home = await TempDir.make();
  for (
    const [args, said] of [
      [["--contract", "--repair"], /--repair/],
      [["--url", "http://127.0.0.1:1"], /--contract/],
      [["--from", "http://127.0.0.1:1"], /--repair/],
    ] as const
  ) {
    const { code, stderr } = await sublet(home.path, ["cas", "check", ...args]);
    assert.equal(code, 2);
    assert.match(stderr, said);
  }
});

Deno.test("a served store keeps its contract, and mends another one", async () => {
  await using home = await TempDir.make();
  await using client = await TempDir.make();
  const token = (await sublet(home.path, ["token", "create", "checker"])).stdout.trim();
  const server = command(home.path, ["cas", "serve", "--listen", "127.0.0.1:0"]).spawn();
  try {
    const reader = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let said = "";
    while (!said.includes("\n")) said += (await reader.read()).value ?? "\n";
    const url = said.replace("cas serving on ", "").trim();
    reader.cancel();
    const env = { SUBLET_HTTPS_TOKEN: token };
    const check = ["cas", "check", "--contract", "--url", url, "--json"];
    const { code, stdout, stderr } = await sublet(client.path, check, env);
    assert.equal(code, 0, stdout + stderr);
    const { store, rules } = JSON.parse(stdout);
    assert.equal(store, url);
    assert.ok(rules.length > 25);
    for (const { rule, kept } of rules) assert.equal(kept, true, rule);
    assert.equal((await sublet(client.path, check, {})).code, 4, "without a token");

    await using ours = await openDisk({ path: client.join("store") });
    await using theirs = await openDisk({ path: home.join("store") });
    const cid = await ours.put(text("in both"));
    const other = await ours.put(text("only here"));
    await theirs.put(text("in both"));
    for (const damaged of [cid, other]) {
      await damageObject(client.join("store"), damaged, "garbage");
    }
    const repair = ["cas", "check", "--repair", "--from", url, cid, other];
    const repaired = await sublet(client.path, repair, env);
    assert.equal(repaired.code, 9);
    assert.deepEqual(repaired.stdout.trim().split("\n"), [`mended\t${cid}`, `corrupt\t${other}`]);
    assert.deepEqual(await ours.get(cid), text("in both"));
  } finally {
    server.kill("SIGTERM");
    await server.stderr.cancel();
    await server.status;
  }
});

Deno.test("a store of this home keeps its contract, whichever it is", async () => {
  await using home = await TempDir.make();
  for (const provider of ["disk", "sqlite"]) {
    await Deno.writeTextFile(
      home.join("config.toml"),
      `[plugins.cas]\nprovider = "${provider}"\n`,
    );
    const { code, stdout, stderr } = await sublet(home.path, ["cas", "check", "--contract"]);
    assert.equal(code, 0, stdout + stderr);
    const lines = stdout.trim().split("\n");
    assert.ok(lines.length > 25 && lines.every((line) => line.startsWith("ok\t")), stdout);
  }
});
