// deno-lint-ignore-file no-non-null-assertion
import assert from "node:assert/strict";
import { isError, SubletError } from "../../lib/home/mod.ts";
import { Connection } from "../../lib/store/connection.ts";
import { ReadLane } from "../../lib/store/read_lane.ts";
import { SyncedFile } from "../../lib/store/synced_file.ts";
import { WriteLane } from "../../lib/store/write_lane.ts";
import { TempDir, until } from "../kit/mod.ts";

/** A disk whose syncs end when a test says so. */
class SlowDisk {
  readonly syncs: PromiseWithResolvers<void>[] = [];

  readonly sync = (): Promise<void> => {
    const sync = Promise.withResolvers<void>();
    this.syncs.push(sync);
    return sync.promise;
  };
}

/** A lane on a table of one row, whose making needs no sync, and what was answered so far. */
function laneOn(disk: SlowDisk) {
  const connection = new Connection(":memory:", false, 0);
  connection.exec("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (0)");
  const lane = new WriteLane(connection, disk.sync);
  const answered: string[] = [];
  const note = (name: string) => () => void answered.push(name);
  const run = (name: string, sql: string) =>
    lane.add(async (tx) => {
      tx.onCommit(note(`${name} committed`));
      await tx.run(sql);
    }).then(() => void answered.push(name));
  const set = (n: number) => run(`set ${n}`, `UPDATE t SET n = ${n}`);
  const look = () =>
    lane.add(async (tx) => {
      const row = await tx.get<{ n: number }>("SELECT n FROM t");
      answered.push(`looks at ${row!.n}`);
      return row!.n;
    }).then((seen) => void answered.push(`saw ${seen}`));
  return { connection, lane, answered, set, look };
}

const n = (connection: Connection) => connection.get("SELECT n FROM t", [])!.n;
const shows = (connection: Connection, value: number) =>
  until(`the row shows ${value}`, () => n(connection) === value);
const syncs = (disk: SlowDisk, count: number) =>
  until(`${count} syncs began`, () => disk.syncs.length === count);

Deno.test("a write is answered, and its callbacks run, when its sync has ended and not before", async () => {
  const disk = new SlowDisk();
  const { connection, answered, set } = laneOn(disk);
  const done = set(1);
  await syncs(disk, 1);
  assert.equal(n(connection), 1);
  assert.deepEqual(answered, []);
  disk.syncs[0]!.resolve();
  await done;
  assert.deepEqual(answered, ["set 1 committed", "set 1"]);
});

Deno.test("writes run during a sync, share the next one, and are answered in order", async () => {
  const disk = new SlowDisk();
  const { connection, lane, answered, set } = laneOn(disk);
  const all = [set(1)];
  await syncs(disk, 1);
  all.push(set(2));
  await shows(connection, 2);
  all.push(set(3));
  await shows(connection, 3);
  assert.equal(disk.syncs.length, 1);
  disk.syncs[0]!.resolve();
  await syncs(disk, 2);
  assert.deepEqual(answered, ["set 1 committed", "set 1"]);
  disk.syncs[1]!.resolve();
  await Promise.all(all);
  assert.deepEqual(answered.slice(2).filter((name) => !name.includes("committed")), [
    "set 2",
    "set 3",
  ]);
  assert.equal(disk.syncs.length, 2);
  assert.equal(lane.settled(), null);
});

Deno.test("a body that only looked is told what it saw once that is durable, without a sync of its own", async () => {
  const disk = new SlowDisk();
  const { answered, set, look } = laneOn(disk);
  await look();
  assert.equal(disk.syncs.length, 0);
  const all = [set(1)];
  await syncs(disk, 1);
  all.push(look());
  await until("it looked", () => answered.includes("looks at 1"));
  assert.ok(!answered.includes("saw 1"));
  disk.syncs[0]!.resolve();
  await Promise.all(all);
  assert.deepEqual(answered.slice(-3), ["set 1 committed", "set 1", "saw 1"]);
  assert.equal(disk.syncs.length, 1);
});

Deno.test("settled and drained wait for what is committed and not yet synced", async () => {
  const disk = new SlowDisk();
  const { lane, answered, set } = laneOn(disk);
  const done = set(1);
  await syncs(disk, 1);
  const waits = [lane.settled(), lane.drained()].map((wait) =>
    wait!.then(() => void answered.push("settled"))
  );
  assert.deepEqual(answered, []);
  disk.syncs[0]!.resolve();
  await Promise.all([done, ...waits]);
  assert.deepEqual(answered, ["set 1 committed", "set 1", "settled", "settled"]);
});

Deno.test("once a sync has failed nothing is answered as stored, and nothing more is taken", async () => {
  const disk = new SlowDisk();
  const { connection, lane, answered, set } = laneOn(disk);
  const failed = (error: unknown) =>
    isError(error, "unavailable") && error instanceof SubletError &&
    /I\/O error.*restart/s.test(error.message);
  const first = assert.rejects(set(1), failed);
  await syncs(disk, 1);
  const second = assert.rejects(set(2), failed);
  await shows(connection, 2);
  disk.syncs[0]!.reject(new Error("I/O error"));
  await Promise.all([first, second]);
  await assert.rejects(set(3), failed);
  assert.throws(() => lane.settled(), failed);
  assert.equal(n(connection), 2);
  assert.deepEqual(answered, []);
});

Deno.test("a body that failed undid its change, and is answered without a sync", async () => {
  const disk = new SlowDisk();
  const { connection, lane } = laneOn(disk);
  await assert.rejects(
    lane.add(async (tx) => {
      await tx.run("UPDATE t SET n = 9");
      throw new Error("no");
    }),
    /^Error: no$/,
  );
  assert.equal(n(connection), 0);
  assert.equal(disk.syncs.length, 0);
});

Deno.test("a file is synced where it is, and one that is not there is an error", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("log");
  const log = new SyncedFile(path);
  await assert.rejects(log.sync(), Deno.errors.NotFound);
  await Deno.writeTextFile(path, "x");
  await log.sync();
  log.close();
});

Deno.test("a file that is there is opened at once, so that a sync needs no other", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("log");
  await Deno.writeTextFile(path, "x");
  const log = new SyncedFile(path);
  await Deno.rename(path, dir.join("elsewhere"));
  await log.sync();
  log.close();
});

Deno.test("a rollback that fails ends the lane with an error, and takes the process nowhere", async () => {
  const disk = new SlowDisk();
  const connection = new Connection(":memory:", false, 0);
  const control = connection.control.bind(connection);
  // A disk that fails at the commit and at its rollback.
  connection.control = (sql) =>
    /^(COMMIT|ROLLBACK)$/.test(sql)
      ? () => {
        throw new SubletError("unavailable", "I/O error");
      }
      : control(sql);
  connection.exec("CREATE TABLE t (n INTEGER)");
  const lane = new WriteLane(connection, disk.sync);
  const insert = () => lane.add((tx) => tx.run("INSERT INTO t VALUES (1)"));
  await assert.rejects(insert(), (error) => isError(error, "unavailable"));
  await assert.rejects(insert(), /nothing more is stored.*restart/s);
});

Deno.test("a read whose end failed does not fail the next one", async () => {
  const connection = new Connection(":memory:", false, 0);
  const control = connection.control.bind(connection);
  let failing = true;
  connection.control = (sql) => {
    const run = control(sql);
    return sql !== "COMMIT" ? run : () => {
      if (failing) throw new SubletError("unavailable", "I/O error");
      run();
    };
  };
  const lane = new ReadLane(connection);
  const look = () => lane.add((tx) => tx.get("SELECT 1 AS one"));
  await assert.rejects(look(), (error) => isError(error, "unavailable"));
  failing = false;
  assert.deepEqual(await look(), { one: 1 });
});
