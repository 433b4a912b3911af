/** @module Tests of garbage collection: what nobody needs goes, and nothing else does. */

import assert from "node:assert/strict";
import { join } from "node:path";
import {
  type Cas,
  type Cid,
  type Collectable,
  collectGarbage,
  openCached,
  openDisk,
  openMemory,
  openSqliteCas,
  putManifest,
  rawCid,
} from "../../lib/cas/mod.ts";
import { isError, stderrLog, systemClock } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { damageObject, objectPath } from "./disk_kit.ts";
import { onFile } from "./sqlite_kit.ts";

const text = (value: string) => new TextEncoder().encode(value);
const DAY_MS = 86_400_000;

/** Finds exactly `cids`. */
const finds = (...cids: Cid[]) => async (found: (cid: Cid) => Promise<void> | void) => {
  for (const cid of cids) await found(cid);
};

type Store = Cas & Collectable & Partial<AsyncDisposable>;

const STORES: Record<string, (root: string) => Promise<Store>> = {
  disk: (root) => openDisk({ path: join(root, "disk"), keepEveryMs: 0 }),
  sqlite: (root) => openSqliteCas({ path: join(root, "blobs.sqlite"), keepEveryMs: 0 }),
  memory: () => Promise.resolve(openMemory()),
  cached: async (root) =>
    await openCached({
      path: join(root, "local"),
      remote: await openDisk({ path: join(root, "remote"), keepEveryMs: 0 }),
      where: "file://remote",
      clock: systemClock,
      log: stderrLog,
    }),
};

for (const [name, open] of Object.entries(STORES)) {
  Deno.test(`a collection of a ${name} store keeps what is in use, with all that it names`, async () => {
    await using scratch = await TempDir.make();
    const cas = await open(scratch.path);
    await using _open = { [Symbol.asyncDispose]: async () => await cas[Symbol.asyncDispose]?.() };
    const file = await cas.put(text("a file of a tree"));
    const manifest = await putManifest(cas, [{ path: "a", mode: 0o644, size: 16, blob: file }]);
    const inner = await cas.put(text(JSON.stringify({ tree: manifest })));
    const outer = await cas.put(text(` {"inner": "${inner}"}`));
    const log = await cas.put(text(`no JSON, so ${"x".repeat(70_000)} it names nothing`));
    const large = await cas.put(new Uint8Array(3_000_000).fill(7));
    const garbage = [await cas.put(text("garbage")), await cas.put(new Uint8Array(2_000_000))];
    const live = [file, rawCid(manifest), inner, outer, log, large];

    const young = await collectGarbage(cas, { find: finds(outer, log, large), graceMs: DAY_MS });
    assert.deepEqual([young.blobs, young.live, young.young, young.removed], [8, 6, 2, 0]);
    const dry = await collectGarbage(cas, {
      find: finds(outer, log, large),
      graceMs: -2000,
      dryRun: true,
    });
    assert.deepEqual([dry.removed, dry.young, await cas.missing(garbage)], [2, 0, []]);
    const report = await collectGarbage(cas, { find: finds(outer, log, large), graceMs: -2000 });
    assert.deepEqual([report.removed, report.live, report.young], [2, 6, 0]);
    assert.ok(report.freed > 0);
    assert.deepEqual(await cas.missing([...garbage, ...live]), garbage);
    for (const cid of garbage) assert.equal(await cas.get(cid), null);
    assert.deepEqual(await cas.get(file), text("a file of a tree"));

    assert.equal(await cas.put(text("garbage")), garbage[0]);
    assert.deepEqual(await cas.get(await cas.put(text("garbage"))), text("garbage"));
  });
}

for (const name of ["disk", "sqlite"]) {
  Deno.test(`a ${name} store makes a blob young that is put again, or asked for`, async () => {
    await using scratch = await TempDir.make();
    const cas = await STORES[name]?.(scratch.path);
    assert.ok(cas !== undefined);
    await using _open = { [Symbol.asyncDispose]: async () => await cas[Symbol.asyncDispose]?.() };
    const names = ["put", "stream", "has", "missing", "nothing"];
    const cids = new Map<string, Cid>();
    for (const name of names) cids.set(name, await cas.put(text(name)));
    const stored = Date.now();
    // Times of change are told by the second.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    const cid = (name: string) => cids.get(name) as Cid;
    await cas.put(text("put"));
    await cas.putStream(new Blob(["stream"]).stream());
    assert.equal(await cas.has(cid("has")), true);
    assert.deepEqual(await cas.missing([cid("missing")]), []);
    const gone = await cas.collect([...cids.values()], Date.now() - stored - 1_500);
    assert.deepEqual(gone.map(({ cid }) => cid), [cid("nothing")]);
  });
}

Deno.test("a collection removes nothing while a manifest that is in use is damaged", async () => {
  await using scratch = await TempDir.make();
  await using cas = await openDisk({ path: scratch.path });
  const file = await cas.put(text("a file"));
  const manifest = await putManifest(cas, [{ path: "a", mode: 0o644, size: 6, blob: file }]);
  await damageObject(scratch.path, manifest, "flipped");
  const options = { find: finds(manifest), graceMs: -2000 };
  await assert.rejects(
    collectGarbage(cas, options),
    (error) => isError(error, "conflict") && error.message.includes(manifest),
  );
  assert.deepEqual(await cas.get(file), text("a file"));
  const report = await collectGarbage(cas, { ...options, despiteDamage: true });
  assert.deepEqual([report.removed, report.damaged], [1, [manifest]]);
});

Deno.test("a collection of a disk store leaves no directory of what it removed", async () => {
  await using scratch = await TempDir.make();
  await using cas = await openDisk({ path: scratch.path });
  const cid = await cas.put(text("garbage"));
  await collectGarbage(cas, { find: finds(), graceMs: -2000 });
  assert.equal((await Array.fromAsync(Deno.readDir(join(scratch.path, "blake3")))).length, 0);
  await cas.put(text("garbage"));
  assert.ok((await Deno.stat(objectPath(scratch.path, cid))).isFile);
});

Deno.test("a dry run goes by the same ages as the sweep, whichever time of a file is the newest", async () => {
  await using scratch = await TempDir.make();
  for (const name of ["disk", "cached"]) {
    const root = scratch.join(name);
    await Deno.mkdir(root);
    const cas = await STORES[name]?.(root);
    assert.ok(cas !== undefined);
    await using _open = { [Symbol.asyncDispose]: async () => await cas[Symbol.asyncDispose]?.() };
    const cid = await cas.put(text("asked for lately"));
    const past = (Date.now() - 3 * DAY_MS) / 1000;
    for (const place of name === "disk" ? ["disk"] : ["local", "remote"]) {
      // Its time of change is now, as after a question.
      await Deno.utime(objectPath(join(root, place), cid), past, past);
    }
    for (const dryRun of [true, false]) {
      const young = await collectGarbage(cas, { find: finds(), graceMs: DAY_MS, dryRun });
      assert.deepEqual([young.removed, young.young], [0, 1], `${name} ${dryRun}`);
    }
    const dry = await collectGarbage(cas, { find: finds(), graceMs: -2000, dryRun: true });
    const report = await collectGarbage(cas, { find: finds(), graceMs: -2000 });
    assert.deepEqual([dry.removed, dry.freed], [report.removed, report.freed]);
    assert.equal(report.removed, 1);
  }
});

Deno.test("a collection sweeps what crashes left, and counts it", async () => {
  await using scratch = await TempDir.make();
  const old = (Date.now() - 2 * DAY_MS) / 1000;
  const leave = async (path: string) => {
    await Deno.writeFile(path, new Uint8Array(1000));
    await Deno.utime(path, old, old);
  };
  const crashes: Record<string, () => Promise<unknown>> = {
    disk: () => leave(scratch.join("disk/tmp/crash")),
    cached: async () => {
      await leave(scratch.join("local/tmp/crash"));
      await leave(scratch.join("local/.cached-crash"));
      await leave(scratch.join("remote/tmp/crash"));
    },
    sqlite: () =>
      Promise.resolve(onFile(scratch.join("blobs.sqlite"), (db) => {
        db.exec("INSERT INTO uploads (frame, touched_at) VALUES (99, 0)");
        db.prepare("INSERT INTO chunks (frame, place, bytes) VALUES (99, 0, ?)")
          .run(new Uint8Array(1000));
      })),
  };
  for (const [name, crash] of Object.entries(crashes)) {
    const cas = await STORES[name]?.(scratch.path);
    assert.ok(cas !== undefined);
    await using _open = { [Symbol.asyncDispose]: async () => await cas[Symbol.asyncDispose]?.() };
    // It is left while the store is open.
    await crash();
    const count = name === "cached" ? 3 : 1;
    const options = { find: finds(), graceMs: DAY_MS };
    const found = { count, bytes: 1000 * count };
    assert.deepEqual((await collectGarbage(cas, { ...options, dryRun: true })).leftovers, found);
    assert.deepEqual((await collectGarbage(cas, options)).leftovers, found);
    assert.deepEqual((await collectGarbage(cas, options)).leftovers, { count: 0, bytes: 0 });
  }
});
