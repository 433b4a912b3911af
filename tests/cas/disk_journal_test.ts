/** @module Tests of small puts that share a sync, and of what a crash leaves of them. */

import assert from "node:assert/strict";
import { type Cid, cidOf, objectName, openDisk, parseCid } from "../../lib/cas/mod.ts";
import { encodeRecords, RECORD } from "../../lib/cas/disk_journal.ts";
import { decodeRecords, replayJournals } from "../../lib/cas/disk_replay.ts";
import { decodeSmall } from "../../lib/cas/object_decode.ts";
import { HEADER, rawFrame } from "../../lib/cas/zstd_frame.ts";
import { TempDir } from "../kit/mod.ts";
import { damageObject, leftovers, objectPath } from "./disk_kit.ts";

const random = (length = 1024) => crypto.getRandomValues(new Uint8Array(length));
const many = (count: number) => Array.from({ length: count }, () => random());
const objectOf = (data: Uint8Array) => ({ cid: cidOf(data), frame: rawFrame(data) });

/** Names in the journal of the store at `root`. */
async function journal(root: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(`${root}/journal`))).map(({ name }) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

const logs = async (root: string) =>
  (await journal(root)).filter((name) => name.endsWith(".log")).map((name) =>
    `${root}/journal/${name}`
  );

/** A store's process that put many small blobs at once and was killed; those that it said were stored. */
async function killed(root: string, afterLines: number): Promise<Cid[]> {
  const process = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-check",
      new URL("./disk_process.ts", import.meta.url).pathname,
      "small puts",
      root,
    ],
    stdout: "piped",
  }).spawn();
  let text = "";
  for await (const part of process.stdout.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.split("\n").length > afterLines) break;
  }
  process.kill("SIGKILL");
  await process.status;
  return text.split("\n").slice(0, -1).map(parseCid);
}

/** What a power cut may do to objects whose files were never synced. */
async function loseObjects(root: string): Promise<void> {
  let turn = 0;
  for (const { name } of await Array.fromAsync(Deno.readDir(`${root}/blake3`))) {
    const path = `${root}/blake3/${name}/bytes.zst`;
    const how = turn++ % 4;
    if (how === 0) await Deno.remove(`${root}/blake3/${name}`, { recursive: true });
    if (how === 1) await Deno.remove(path).catch(() => {});
    if (how === 2) await Deno.writeFile(path, new Uint8Array(0));
    if (how === 3) await Deno.writeFile(path, new Uint8Array(1041));
  }
}

Deno.test("small puts that arrive together are in place, and leave no journal when the store is closed", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  const blobs = many(200);
  const cids = await Promise.all(blobs.map((data) => cas.put(data)));
  assert.equal((await logs(root.path)).length, 1);
  assert.deepEqual(cids, blobs.map((data) => cidOf(data)));
  for (const [i, cid] of cids.entries()) {
    assert.deepEqual(
      await Deno.readFile(objectPath(root.path, cid)),
      rawFrame(blobs[i] as Uint8Array),
    );
  }
  assert.deepEqual(await leftovers(root.path), []);
  await cas[Symbol.asyncDispose]();
  assert.deepEqual(await journal(root.path), []);
  const again = await openDisk({ path: root.path });
  assert.deepEqual(await again.missing(cids), []);
});

Deno.test("a put that comes alone needs no journal", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  for (const data of many(5)) await cas.put(data);
  assert.deepEqual(await journal(root.path), []);
});

Deno.test("equal small puts at once, and puts of what is damaged, end with one intact object", async () => {
  await using root = await TempDir.make();
  await using cas = await openDisk({ path: root.path });
  const data = random();
  const cids = await Promise.all(Array.from({ length: 20 }, () => cas.put(data)));
  assert.equal(new Set(cids).size, 1);
  await damageObject(root.path, cids[0] as Cid, "flipped");
  await Promise.all([
    ...Array.from({ length: 20 }, () => cas.put(data)),
    ...many(9).map((b) => cas.put(b)),
  ]);
  assert.equal(await cas.integrity(cids[0] as Cid), "ok");
});

for (const lines of [1, 150, 1500]) {
  Deno.test(`what a killed process said it had stored survives a power cut, after ${lines} puts`, async () => {
    await using root = await TempDir.make();
    const cids = await killed(root.path, lines);
    assert.ok(cids.length >= lines);
    // Nothing that is visible is partial.
    for (const { name } of await Array.fromAsync(Deno.readDir(`${root.path}/blake3`))) {
      const info = await Deno.stat(`${root.path}/blake3/${name}/bytes.zst`).catch(() => null);
      assert.ok(info === null || info.size === 1041);
    }
    await loseObjects(root.path);
    const cas = await openDisk({ path: root.path, sweepAfterMs: -1000 });
    assert.deepEqual(await cas.missing(cids), []);
    for (const cid of cids) assert.equal(await cas.integrity(cid), "ok");
    await cas[Symbol.asyncDispose]();
    assert.deepEqual(await journal(root.path), []);
    assert.deepEqual(await leftovers(root.path), []);
  });
}

Deno.test("the journal of a process that lives is left alone, and its blobs are seen by another", async () => {
  await using root = await TempDir.make();
  const one = await openDisk({ path: root.path });
  const first = await Promise.all(many(50).map((data) => one.put(data)));
  const before = await journal(root.path);
  const two = await openDisk({ path: root.path });
  assert.deepEqual(await two.missing(first), []);
  const second = await Promise.all(many(50).map((data) => two.put(data)));
  assert.equal((await logs(root.path)).length, 2);
  await two[Symbol.asyncDispose]();
  assert.deepEqual(await journal(root.path), before);
  assert.deepEqual(await one.missing(second), []);
  await one[Symbol.asyncDispose]();
  assert.deepEqual(await journal(root.path), []);
});

Deno.test("a record is read back whole or not at all, wherever the file is cut or damaged", () => {
  const objects = many(5).map(objectOf);
  const bytes = encodeRecords(objects);
  const size = bytes.length / 5;
  assert.deepEqual(decodeRecords(bytes), objects);
  const padded = new Uint8Array(bytes.length + 4096);
  padded.set(bytes);
  assert.deepEqual(decodeRecords(padded), objects);
  for (let cut = 0; cut < bytes.length; cut += 7) {
    assert.equal(decodeRecords(bytes.subarray(0, cut)).length, Math.floor(cut / size));
    const torn = bytes.slice();
    torn.fill(0, cut);
    assert.equal(decodeRecords(torn).length, Math.floor(cut / size));
    const flipped = bytes.slice();
    flipped[cut] = (flipped[cut] ?? 0) ^ 0x10;
    const found = decodeRecords(flipped);
    for (const { cid, frame } of found) assert.equal(cidOf(decodeSmall(frame, 2000) ?? frame), cid);
    // Some bits of a frame's header mean nothing for its content.
    const inHeader = cut % size >= RECORD && cut % size < RECORD + HEADER;
    if (!inHeader) assert.equal(found.length, Math.floor(cut / size), `byte ${cut}`);
  }
  const huge = bytes.slice();
  new DataView(huge.buffer).setUint32(4, 0xffff_ffff, true);
  assert.deepEqual(decodeRecords(huge), []);
});

Deno.test("a torn journal is replayed up to where it is torn", async () => {
  await using root = await TempDir.make();
  await openDisk({ path: root.path });
  const objects = many(40).map(objectOf);
  const bytes = encodeRecords(objects);
  await Deno.mkdir(root.join("journal"));
  await Deno.writeFile(root.join("journal/a.0.log"), bytes.subarray(0, bytes.length - 1));
  await Deno.writeFile(root.join("journal/b.3.log"), new TextEncoder().encode("no journal at all"));
  await Deno.writeFile(root.join("journal/c.0.log"), new Uint8Array(0));
  const { count, settled } = await replayJournals(root.path);
  assert.equal(count, 39);
  await settled;
  assert.deepEqual(await journal(root.path), []);
  const cas = await openDisk({ path: root.path });
  const last = objects.at(-1);
  assert.deepEqual(await cas.missing(objects.map(({ cid }) => cid)), [last?.cid]);
  assert.equal((await replayJournals(root.path)).count, 0);
});

Deno.test("where there can be no journal each small put syncs its own file", async () => {
  await using root = await TempDir.make();
  await Deno.writeTextFile(root.join("journal"), "in the way");
  await assert.rejects(openDisk({ path: root.path }));
  await Deno.remove(root.join("journal"));
  await using cas = await openDisk({ path: root.path });
  await Deno.writeTextFile(root.join("journal"), "in the way");
  const cids = await Promise.all(many(50).map((data) => cas.put(data)));
  assert.deepEqual(await cas.missing(cids), []);
  await Deno.remove(root.join("journal"));
});

Deno.test("a journal whose sync fails is not used any more, and no put is lost or acknowledged by it", async () => {
  await using root = await TempDir.make();
  await using cas = await openDisk({ path: root.path });
  const original = Deno.FsFile.prototype.syncData;
  let failures = 0;
  Deno.FsFile.prototype.syncData = function () {
    return failures++ === 1 ? Promise.reject(new Error("injected")) : original.call(this);
  };
  try {
    const one = await Promise.all(many(20).map((data) => cas.put(data)));
    const two = await Promise.all(many(20).map((data) => cas.put(data)));
    const three = await Promise.all(many(20).map((data) => cas.put(data)));
    assert.ok(failures > 1);
    assert.deepEqual(await cas.missing([...one, ...two, ...three]), []);
    assert.deepEqual(await leftovers(root.path), []);
  } finally {
    Deno.FsFile.prototype.syncData = original;
  }
});

Deno.test("a blob that goes while its journal is kept does not keep the journal from being retired", async () => {
  await using root = await TempDir.make();
  const cas = await openDisk({ path: root.path });
  const [first] = await Promise.all(many(20).map((data) => cas.put(data)));
  await Deno.remove(root.join("blake3", objectName(first as Cid)), { recursive: true });
  await cas[Symbol.asyncDispose]();
  assert.deepEqual(await journal(root.path), []);
  assert.equal(await (await openDisk({ path: root.path })).has(first as Cid), false);
});
