// deno-lint-ignore-file no-non-null-assertion
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { isError } from "../../lib/home/mod.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { TempDir, until } from "../kit/mod.ts";
import { checkDb } from "./check_db.ts";

const bare = { migrations: false };

checkDb("sqlite in a file", (path) => openSqlite(path, bare));
checkDb("sqlite in memory", () => openSqlite(":memory:", bare));

Deno.test("sqlite: what was answered is there when the file is opened again", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("a.db");
  {
    await using db = await openSqlite(path, bare);
    await db.write((tx) => tx.run("CREATE TABLE t (id INTEGER PRIMARY KEY)"));
    await db.write((tx) => tx.run("INSERT INTO t VALUES (7)"));
  }
  await using db = await openSqlite(path, bare);
  assert.deepEqual(await db.read((tx) => tx.all("SELECT id FROM t")), [{ id: 7 }]);
});

Deno.test("sqlite: a write-ahead log, which SQLite syncs before a checkpoint and the lane after a commit, with foreign keys on", async () => {
  await using dir = await TempDir.make();
  await using db = await openSqlite(dir.join("a.db"), bare);
  const pragma = (name: string) =>
    db.write(async (tx) => Object.values((await tx.get(`PRAGMA ${name}`))!)[0]);
  assert.equal(await pragma("journal_mode"), "wal");
  assert.equal(await pragma("synchronous"), 1);
  assert.equal(await pragma("foreign_keys"), 1);
});

Deno.test("sqlite: the file is its owner's alone, also one that was open to others", async () => {
  await using dir = await TempDir.make();
  await Deno.writeFile(dir.join("old.db"), new Uint8Array(), { mode: 0o644 });
  for (const name of ["new.db", "old.db"]) {
    await using _db = await openSqlite(dir.join(name));
    for (const suffix of ["", "-wal", "-shm"]) {
      assert.equal((await Deno.stat(dir.join(name + suffix))).mode! & 0o777, 0o600, name + suffix);
    }
  }
});

Deno.test("sqlite: bodies that change nothing write nothing", async () => {
  await using dir = await TempDir.make();
  await using db = await openSqlite(dir.join("a.db"), bare);
  await db.write((tx) => tx.run("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)"));
  const size = async () => (await Deno.stat(dir.join("a.db-wal"))).size;
  const before = await size();
  await Promise.all(Array.from({ length: 20 }, () =>
    db.write(async (tx) => {
      await tx.get("SELECT count(*) FROM t");
      await tx.run("UPDATE t SET n = 1 WHERE id = 5");
    })));
  assert.equal(await size(), before);
});

Deno.test("sqlite: the version for caches moves when another connection commits", async () => {
  await using dir = await TempDir.make();
  await using one = await openSqlite(dir.join("a.db"), bare);
  await using two = await openSqlite(dir.join("a.db"), bare);
  const before = one.dataVersion();
  assert.equal(one.dataVersion(), before);
  await two.write((tx) => tx.run("CREATE TABLE t (id INTEGER)"));
  assert.notEqual(one.dataVersion(), before);
});

Deno.test("sqlite: a read is a snapshot, whatever another process commits meanwhile", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("a.db");
  await using db = await openSqlite(path, bare);
  await db.write(async (tx) => {
    await tx.run("CREATE TABLE pair (name TEXT PRIMARY KEY, n INTEGER NOT NULL)");
    await tx.run("INSERT INTO pair VALUES ('a', 0), ('b', 0)");
  });
  const child = writer("pair", path);
  try {
    const read = () =>
      db.read(async (tx) => {
        const get = (name: string) => tx.get("SELECT n FROM pair WHERE name = ?", [name]);
        return [(await get("a"))!.n as number, (await get("b"))!.n as number] as const;
      });
    const moved = new Set<number>();
    await until("the other process to commit many times between our reads", async () => {
      const [a, b] = await read();
      assert.equal(a, b);
      moved.add(a);
      return moved.size > 20;
    });
  } finally {
    child.kill("SIGKILL");
    await child.status;
    await child.stdout.cancel();
  }
});

Deno.test("sqlite: a process killed with -9 while it writes loses no write that it was answered for", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("a.db");
  await using db = await openSqlite(path, bare);
  await db.write((tx) => tx.run("CREATE TABLE t (id INTEGER PRIMARY KEY, half INTEGER NOT NULL)"));
  const child = writer("rows", path);
  const answered: number[] = [];
  let rest = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    answered.push(...lines.map(Number));
    if (answered.length > 300) child.kill("SIGKILL");
  }
  assert.equal((await child.status).signal, "SIGKILL");
  const rows = await db.read((tx) => tx.all<{ id: number; half: number }>("SELECT * FROM t"));
  const found = new Set(rows.map((row) => row.id));
  assert.deepEqual(answered.filter((id) => !found.has(id)), []);
  const halves = new Map<number, number>();
  for (const { half } of rows) halves.set(half, (halves.get(half) ?? 0) + 1);
  assert.deepEqual(
    [...halves.values()].filter((count) => count !== 2),
    [],
    "half of a body is there",
  );
});

function writer(what: string, path: string): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", new URL("./writer_process.ts", import.meta.url).pathname, what, path],
    stdin: "null",
    stdout: "piped",
  }).spawn();
}

Deno.test("sqlite: a full database refuses what does not fit, and what it answered is what is there", async () => {
  await using dir = await TempDir.make();
  await using db = await openSqlite(dir.join("a.db"), bare);
  await db.write(async (tx) => {
    await tx.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)");
    await tx.get("PRAGMA max_page_count = 40");
  });
  const put = (id: number, bytes: number) =>
    db.write((tx) => tx.run("INSERT INTO t VALUES (?, ?)", [id, new Uint8Array(bytes)]));
  const results = await Promise.allSettled([put(1, 10), put(2, 1_000_000), put(3, 10)]);
  const full = results[1];
  assert.ok(full?.status === "rejected" && isError(full.reason, "unavailable"));
  assert.match(full.reason.message, /full.*free some space/i);
  const kept = results.flatMap((one, index) => one.status === "fulfilled" ? [index + 1] : []);
  const ids = async () =>
    (await db.read((tx) => tx.all("SELECT id FROM t ORDER BY id"))).map((row) => row.id);
  assert.deepEqual(await ids(), kept);
  await db.write(async (tx) => {
    const error = await tx.run("INSERT INTO t VALUES (?, ?)", [4, new Uint8Array(1_000_000)])
      .catch((error) => error);
    assert.ok(isError(error, "unavailable"));
    await tx.run("INSERT INTO t VALUES (5, NULL)");
  }).then(() => kept.push(5), (error) => assert.ok(isError(error, "unavailable")));
  await put(6, 10);
  assert.deepEqual(await ids(), [...kept, 6]);
});

Deno.test("sqlite: a database that another process holds is `unavailable` after the timeout", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("a.db");
  await using db = await openSqlite(path, { ...bare, busyTimeoutMs: 1 });
  await db.write((tx) => tx.run("CREATE TABLE t (id INTEGER PRIMARY KEY)"));
  const other = new DatabaseSync(path);
  other.exec("BEGIN IMMEDIATE");
  await assert.rejects(
    db.write((tx) => tx.run("INSERT INTO t VALUES (1)")),
    (error) => isError(error, "unavailable") && /Another process holds it/.test(error.message),
  );
  other.exec("COMMIT");
  other.close();
  assert.equal(await db.write((tx) => tx.run("INSERT INTO t VALUES (2)")), 1);
});

Deno.test("sqlite: a path that is no database is `unavailable`, and says what to do", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(
    dir.join("text.db"),
    "this is no database at all, whatever its name is\n".repeat(90),
  );
  await Deno.mkdir(dir.join("directory.db"));
  const cases = [
    ["text.db", /not a database.*move it away/],
    ["directory.db", /directory exists/],
    ["missing/a.db", /its directory exists/],
  ] as const;
  for (const [name, text] of cases) {
    await assert.rejects(
      openSqlite(dir.join(name)),
      (error) =>
        isError(error, "unavailable") && text.test(error.message) &&
        error.message.includes(dir.join(name)),
      name,
    );
  }
  assert.match(await Deno.readTextFile(dir.join("text.db")), /^this is no database/);
});

Deno.test("sqlite: a damaged database is `unavailable`, and says so", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("a.db");
  {
    await using db = await openSqlite(path, bare);
    await db.write(async (tx) => {
      await tx.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)");
      for (let id = 0; id < 500; id++) {
        await tx.run("INSERT INTO t VALUES (?, ?)", [id, "x".repeat(300)]);
      }
    });
  }
  const bytes = await Deno.readFile(path);
  bytes.fill(0xff, 8192, bytes.length - 4096);
  await Deno.writeFile(path, bytes);
  await using db = await openSqlite(path, bare);
  await assert.rejects(
    db.read((tx) => tx.all("SELECT sum(length(v)) FROM t")),
    (error) => isError(error, "unavailable") && /damaged/.test(error.message),
  );
});

Deno.test("sqlite: many that open one new file at once all get it", async () => {
  await using dir = await TempDir.make();
  const opened = await Promise.all(Array.from({ length: 5 }, () => openSqlite(dir.join("a.db"))));
  for (const db of opened) {
    assert.ok(await db.read((tx) => tx.get("SELECT 1 FROM schema_migrations")));
    await db[Symbol.asyncDispose]();
  }
});
