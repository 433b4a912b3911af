/** @module `sublet cas gc`, `pin` and `status` as processes: what a home's database and pins name stays, the rest goes. */

import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type Cid, openDisk, storeTree } from "../../lib/cas/mod.ts";
import { selfCommand } from "../../lib/cli/self.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { TempDir } from "../kit/mod.ts";

const text = (value: string) => new TextEncoder().encode(value);

async function sublet(home: string, ...args: string[]) {
  const [program = "", ...argv] = selfCommand(args);
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args: argv,
    env: { SUBLET_HOME: home },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** Put into the database at `path` a row of each kind that names a blob. */
async function nameBlobs(path: string, names: Readonly<Record<string, string>>): Promise<void> {
  await using _made = await openSqlite(path);
  const db = new DatabaseSync(path);
  try {
    db.exec("PRAGMA foreign_keys = OFF");
    db.prepare(
      `INSERT INTO jobs (id, kind, key, job_cid, lane, priority, max_attempts, created_at)
       VALUES (12, 'evaluation', 'k', ?, 'l', 0, 1, 0)`,
    ).run(names["job"] ?? "");
    db.prepare(
      "INSERT INTO first_transfers (campaign, revision, blob, bytes) VALUES (1, 'r', ?, 1)",
    ).run(names["transfer"] ?? "");
    db.prepare("INSERT INTO streams VALUES (1, 'session.jsonl', 12, 1, 1)").run();
    db.prepare("INSERT INTO stream_parts VALUES (1, 'session.jsonl', 0, 1, ?)")
      .run(names["stream"] ?? "");
    db.prepare(
      `INSERT INTO agents (id, campaign, role, harness, prompt, base, subject, timeout, resumable, requires, secrets,
         requested_at, session, workspace, files)
       VALUES (3, 1, 'r', 'h', 'p', 'b', 's', 1, 0, '{}', '[]', 0, ?, ?, ?)`,
    ).run(
      JSON.stringify({ file: names["session"], name: "s", cwd: "/" }),
      names["workspace"] ?? "",
      JSON.stringify({ "out.txt": names["file"] }),
    );
  } finally {
    db.close();
  }
}

Deno.test("sublet cas gc keeps what the home names, what that names, and pins; the rest goes", async () => {
  await using home = await TempDir.make();
  await using cas = await openDisk({ path: home.join("store") });
  await Deno.mkdir(home.join("tree/data"), { recursive: true });
  await Deno.writeTextFile(home.join("tree/data/train.csv"), "1,2,3");
  const { manifest } = await storeTree(cas, home.join("tree"));
  const names: Record<string, string> = { workspace: manifest };
  for (const name of ["transfer", "stream", "session", "file"]) {
    names[name] = await cas.put(text(`the ${name}`));
  }
  const input = await cas.put(text("an input"));
  names["job"] = await cas.put(text(JSON.stringify({ inputs: { data: input } })));
  await nameBlobs(home.join("sublet.db"), names);
  const pinned = await cas.put(text("pinned"));
  const garbage = await cas.put(text("garbage"));
  const waiting = await cas.put(text("of a report that waits"));
  await Deno.mkdir(home.join("spool/worker"), { recursive: true });
  await Deno.writeTextFile(home.join("spool/worker/1.json"), JSON.stringify({ log: waiting }));
  const live = [...Object.values(names), waiting, input, await cas.put(text("1,2,3")), pinned];
  // Older than the shortest grace, by the second that times of change are told by.
  await new Promise((resolve) => setTimeout(resolve, 3_500));

  const pin = await sublet(home.path, "cas", "pin", pinned, "--reason", "a baseline");
  assert.equal(pin.code, 0, pin.stderr);
  assert.match(
    (await sublet(home.path, "cas", "pins")).stdout,
    new RegExp(`${pinned}\\t.*baseline`),
  );
  const young = await sublet(home.path, "cas", "gc", "--json");
  assert.equal(young.code, 0, young.stderr);
  assert.equal(JSON.parse(young.stdout).removed, 0);
  const status = await sublet(home.path, "cas", "status", "--garbage", "--grace", "1s", "--json");
  const told = JSON.parse(status.stdout);
  assert.deepEqual([told.blobs, told.garbage.blobs, told.garbage.live], [11, 1, 10]);

  const { code, stdout, stderr } = await sublet(home.path, "cas", "gc", "--grace", "1s");
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^removed\t1$/m);
  assert.equal(await cas.get(garbage as Cid), null);
  for (const cid of live) assert.notEqual(await cas.get(cid as Cid), null, cid);

  assert.equal((await sublet(home.path, "cas", "unpin", pinned)).code, 0);
  assert.equal((await sublet(home.path, "cas", "unpin", pinned)).code, 5);
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  await sublet(home.path, "cas", "gc", "--grace", "1s");
  assert.equal(await cas.get(pinned), null);
});

Deno.test("what ended work left is kept as long as the configuration says", async () => {
  await using home = await TempDir.make();
  await using cas = await openDisk({ path: home.join("store") });
  const names: Record<string, Cid> = {};
  for (const name of ["transfer", "session", "file", "job"]) {
    names[name] = await cas.put(text(`the ${name}`));
  }
  await nameBlobs(home.join("sublet.db"), names);
  const end = (at: number | null) => {
    const db = new DatabaseSync(home.join("sublet.db"));
    db.prepare("UPDATE agents SET state = ?, ended_at = ?")
      .run(at === null ? "running" : "finished", at);
    db.close();
  };
  const removed = async (config: string, endedAt: number | null) => {
    await Deno.writeTextFile(home.join("config.toml"), config);
    end(endedAt);
    const { code, stdout, stderr } = await sublet(
      home.path,
      "cas",
      "gc",
      "--grace",
      "1s",
      "--json",
    );
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout).removed;
  };
  await new Promise((resolve) => setTimeout(resolve, 3_500));
  const day = 86_400_000;
  const short = "[storage]\nsessions_days = 2\n";
  assert.equal(await removed("", Date.now() - 1000 * day), 0);
  assert.equal(await removed(short, null), 0);
  assert.equal(await removed(short, Date.now() - day), 0);
  assert.equal(await removed(short, Date.now() - 3 * day), 1);
  assert.equal(await cas.get(names["session"] as Cid), null);
  assert.equal(await removed("[storage]\nfiles_days = 2\n", Date.now() - 3 * day), 1);
  assert.equal(await cas.get(names["file"] as Cid), null);
});

Deno.test("sublet cas gc does not touch a store of which the home knows nothing, unless it is told to", async () => {
  await using home = await TempDir.make();
  await using cas = await openDisk({ path: home.join("store") });
  const cid = await cas.put(text("somebody's"));
  await new Promise((resolve) => setTimeout(resolve, 3_500));
  const refused = await sublet(home.path, "cas", "gc", "--grace", "1s");
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /--alone/);
  assert.notEqual(await cas.get(cid), null);
  const done = await sublet(home.path, "cas", "gc", "--grace", "1s", "--alone", "--json");
  assert.equal(JSON.parse(done.stdout).removed, 1, done.stderr);
  assert.equal(await cas.get(cid), null);
});

Deno.test("the status of a cache tells its tiers, its oldest blob and what a collection would free", async () => {
  await using home = await TempDir.make();
  const remote = '{ provider = "disk", path = "there" }';
  await Deno.writeTextFile(
    home.join("config.toml"),
    `[plugins.cas]\nprovider = "cached"\nlocal = "here"\nremote = ${remote}\n`,
  );
  await Deno.writeTextFile(home.join("file"), "in both tiers");
  assert.equal((await sublet(home.path, "cas", "put", home.join("file"))).code, 0);
  await Deno.writeTextFile(home.join("there/tmp/crash"), "left");
  await Deno.utime(home.join("there/tmp/crash"), 0, 0);
  const plain = JSON.parse((await sublet(home.path, "cas", "status", "--json")).stdout);
  assert.deepEqual([plain.blobs, plain.tiers.local, plain.tiers.remote], [1, 1, 1]);
  assert.ok(Date.now() - Date.parse(plain.oldest) < 600_000);
  const { stdout } = await sublet(home.path, "cas", "status", "--garbage", "--json");
  const { garbage } = JSON.parse(stdout);
  assert.deepEqual([garbage.young, garbage.blobs, garbage.leftovers], [1, 0, 1]);
  for (const flags of [["--dry-run"], ["--alone"]]) {
    const gc = JSON.parse((await sublet(home.path, "cas", "gc", "--json", ...flags)).stdout);
    assert.deepEqual([gc.leftovers, gc.leftover_bytes], [1, 4]);
  }
  await assert.rejects(Deno.stat(home.join("there/tmp/crash")), Deno.errors.NotFound);
});

Deno.test("a collection that must be alone and sublet cas serve refuse each other", async () => {
  await using home = await TempDir.make();
  await using cas = await openDisk({ path: home.join("store") });
  const cid = await cas.put(text("told to be there"));
  const [program = "", ...argv] = selfCommand(["cas", "serve", "--listen", "127.0.0.1:0"]);
  const server = new Deno.Command(program, {
    args: argv,
    env: { SUBLET_HOME: home.path },
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const output = server.stdout.getReader();
  try {
    assert.match(new TextDecoder().decode((await output.read()).value), /^cas serving on /);
    const refused = await sublet(home.path, "cas", "gc", "--alone", "--grace", "1s");
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, /less than 60 minutes needs .* cas serve/);
    assert.equal(await cas.has(cid), true);
    const patient = await sublet(home.path, "cas", "gc", "--alone", "--grace", "24h");
    assert.equal(patient.code, 0, patient.stderr);
  } finally {
    server.kill("SIGKILL");
    await server.status;
    await output.cancel();
  }
  const after = await sublet(home.path, "cas", "gc", "--alone", "--grace", "1s");
  assert.equal(after.code, 0, after.stderr);
});
