/** @module Tests of the cached provider: its contract, its markers, and what happens when a tier fails. */

import assert from "node:assert/strict";
import { zstdDecompressSync } from "node:zlib";
import {
  type Cas,
  checkCas,
  type Cid,
  cidOf,
  type Damage,
  objectName,
  openDisk,
} from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { Flaky, isMarked, openCache, tiersIn } from "./cached_kit.ts";
import { damageObject, leftovers, objectPath } from "./disk_kit.ts";
import { serveStore } from "./http_kit.ts";

const text = (value: string) => new TextEncoder().encode(value);
const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};
const exists = (path: string) => Deno.stat(path).then(() => true, () => false);

/** Damage every copy of a blob that there is. */
function damageIn(...roots: string[]) {
  return async (cid: Cid, how: Damage) => {
    for (const root of roots) {
      if (await exists(objectPath(root, cid))) await damageObject(root, cid, how);
    }
  };
}

Deno.test("a cache over a disk store keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using other = await openCache(scratch.path);
  await using cas = await openCache(scratch.path);
  await checkCas(() => Promise.resolve(cas), {
    scratch: scratch.path,
    damage: damageIn(local, remote),
    leftovers: async () => [...await leftovers(local), ...await leftovers(remote)],
    again: () => Promise.resolve(other),
  });
});

Deno.test("a cache that keeps nothing here keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using other = await openCache(scratch.path, { evictAfterDays: 0 });
  await using cas = await openCache(scratch.path, { evictAfterDays: 0 });
  await checkCas(() => Promise.resolve(cas), {
    scratch: scratch.path,
    damage: damageIn(local, remote),
    leftovers: async () => [...await leftovers(local), ...await leftovers(remote)],
    again: () => Promise.resolve(other),
  });
  assert.equal((await cas.usage()).tiers?.local, 0);
});

Deno.test("a cache over a store that is served keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  const tmp = scratch.join("spool");
  await Deno.mkdir(tmp);
  await using there = await openDisk({ path: remote });
  await using served = await serveStore(there, tmp);
  await using cas = await openCache(scratch.path, { remote: served.cas });
  await checkCas(() => Promise.resolve(cas), {
    scratch: scratch.path,
    damage: damageIn(local, remote),
    leftovers: async () => [...await leftovers(local), ...await leftovers(remote)],
  });
});

Deno.test("a cache says whose it is before its first marker, and marks what the remote holds", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using cas = await openCache(scratch.path);
  assert.equal(await exists(`${local}/remote.url`), false);
  const cid = await cas.put(text("abc"));
  assert.equal(await Deno.readTextFile(`${local}/remote.url`), `file://${remote}`);
  const names = await Array.fromAsync(Deno.readDir(`${local}/blake3/${objectName(cid)}`));
  assert.deepEqual(names.map((entry) => entry.name).sort(), ["bytes.zst", "remote"]);
  assert.equal((await Deno.stat(`${local}/blake3/${objectName(cid)}/remote`)).size, 0);
  assert.deepEqual(await (await openDisk({ path: remote })).get(cid), text("abc"));
});

Deno.test("the cache of another remote is refused, and so is a cache as a store", async () => {
  await using scratch = await TempDir.make();
  const { local } = tiersIn(scratch.path);
  {
    await using cas = await openCache(scratch.path);
    await cas.put(text("abc"));
  }
  await assert.rejects(openDisk({ path: local }), (error) => isError(error, "config"));
  await Deno.writeTextFile(`${local}/remote.url`, "s3://elsewhere/blobs\n");
  await assert.rejects(openCache(scratch.path), (error) => {
    return isError(error, "config") && error.message.includes("s3://elsewhere/blobs") &&
      error.message.includes(local) && error.message.includes("remote.url");
  });
});

Deno.test("a cache that piloop left is taken over, with what it dropped and what a crash left", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  const cid = await there.put(text("evicted by piloop"));
  await Deno.mkdir(`${local}/blake3/${objectName(cid)}`, { recursive: true });
  await Deno.writeTextFile(`${local}/blake3/${objectName(cid)}/remote`, "");
  await Deno.writeTextFile(`${local}/remote.url`, `file://${remote}`);
  const [old, fresh] = [`${local}/.cached-old`, `${local}/.cached-fresh`];
  for (const path of [old, fresh]) await Deno.writeTextFile(path, "a transfer");
  await Deno.utime(old, 1, 1);
  const flaky = new Flaky(there);
  await using cas = await openCache(scratch.path, { remote: flaky.cas });
  assert.deepEqual([await exists(old), await exists(fresh)], [false, true]);
  assert.equal(await cas.has(cid), true);
  assert.deepEqual(await cas.missing([cid]), []);
  assert.deepEqual(await Array.fromAsync(cas.list()), [cid]);
  assert.deepEqual(flaky.calls, [], "the markers answer");
  assert.deepEqual(await cas.usage(), {
    blobs: 1,
    bytes: 0,
    tiers: { local: 0, remote: 1, where: `file://${remote}` },
  });
  assert.deepEqual(await cas.get(cid), text("evicted by piloop"));
  assert.equal((await cas.usage()).tiers?.local, 1);
});

Deno.test("what another machine put is found, and marked", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  await using cas = await openCache(scratch.path);
  const [first, second] = [await there.put(text("one")), await there.put(text("two"))];
  assert.equal(await cas.has(first), true);
  assert.deepEqual(await cas.missing([second, cidOf(text("no")), second]), [cidOf(text("no"))]);
  assert.deepEqual([await isMarked(local, first), await isMarked(local, second)], [true, true]);
});

Deno.test("a marker that lies is dropped by the first get, and the next put stores the blob", async () => {
  for (const data of [noise(500), noise(500_000)]) {
    await using scratch = await TempDir.make();
    const { local, remote } = tiersIn(scratch.path);
    await using there = await openDisk({ path: remote });
    await using cas = await openCache(scratch.path, { remote: there });
    const cid = await cas.put(data);
    for (const store of [there, await openDisk({ path: local, cache: true })]) {
      await store.release(cid);
    }
    assert.equal(await cas.has(cid), true);
    assert.equal(await cas.get(cid), null);
    assert.equal(await isMarked(local, cid), false);
    assert.equal(await cas.has(cid), false);
    assert.deepEqual(await cas.missing([cid]), [cid]);
    await cas.put(data);
    assert.deepEqual(await there.get(cid), data);
  }
});

Deno.test("a marker of a blob that is damaged on the remote is dropped, too", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using cas = await openCache(scratch.path);
  const data = noise(500_000);
  const cid = await cas.put(data);
  await (await openDisk({ path: local, cache: true })).release(cid);
  await damageObject(remote, cid, "flipped");
  await assert.rejects(cas.get(cid), (error) => isError(error, "integrity"));
  assert.equal(await isMarked(local, cid), false);
  await cas.put(data);
  assert.equal(await (await openDisk({ path: remote })).integrity(cid), "ok");
});

Deno.test("a put stores on the remote what a marker wrongly says is there", async () => {
  await using scratch = await TempDir.make();
  await using there = await openDisk({ path: tiersIn(scratch.path).remote });
  await using cas = await openCache(scratch.path, { remote: there });
  const cid = await cas.put(text("lost there"));
  await there.release(cid);
  await cas.put(text("lost there"));
  assert.deepEqual(await there.get(cid), text("lost there"));
});

const DAMAGES: Damage[] = [
  "truncated",
  "empty",
  "flipped",
  "garbage",
  "followed by other bytes",
  "followed by another frame",
  "another blob's",
];

Deno.test("a damaged local copy is read from the remote, and mended", async () => {
  await using scratch = await TempDir.make();
  const { local } = tiersIn(scratch.path);
  await using cas = await openCache(scratch.path);
  await using tier = await openDisk({ path: local, cache: true });
  const whole = async (cid: Cid) => {
    const body = await cas.getStream(cid);
    return body === null ? null : await new Response(body.stream as ReadableStream).bytes();
  };
  const part = async (cid: Cid) => {
    const body = await cas.getRange(cid, 0);
    return body === null ? null : await new Response(body.stream as ReadableStream).bytes();
  };
  const file = async (cid: Cid) => {
    await cas.getFile(cid, scratch.join("file"));
    return await Deno.readFile(scratch.join("file"));
  };
  for (const data of [noise(600), new Uint8Array(400_000), noise(400_000)]) {
    const cid = await cas.put(data);
    for (const how of DAMAGES) {
      for (const read of [(cid: Cid) => cas.get(cid), whole, part, file]) {
        await damageObject(local, cid, how);
        assert.deepEqual(await read(cid), data, how);
        assert.equal(await tier.integrity(cid), "ok", `mended after it was ${how}`);
      }
    }
  }
});

Deno.test("fifty gets of one blob at once fetch it once", async () => {
  await using scratch = await TempDir.make();
  await using there = await openDisk({ path: tiersIn(scratch.path).remote });
  const flaky = new Flaky(there);
  await using cas = await openCache(scratch.path, { remote: flaky.cas });
  for (const data of [noise(1000), noise(700_000)]) {
    const cid = await there.put(data);
    flaky.calls.length = 0;
    const read = async (i: number) => {
      if (i % 2 === 0) return await cas.get(cid);
      const body = await cas.getStream(cid);
      return await new Response(body?.stream as ReadableStream).bytes();
    };
    for (const bytes of await Promise.all(Array.from({ length: 50 }, (_, i) => read(i)))) {
      assert.deepEqual(bytes, data);
    }
    assert.deepEqual(flaky.calls, ["getStream"]);
  }
});

Deno.test("while the remote is down, what is here is served, and a put says what to do", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  const flaky = new Flaky(there);
  await using cas = await openCache(scratch.path, { remote: flaky.cas });
  const data = noise(300_000);
  const cid = await cas.put(data);
  const elsewhere = await there.put(text("not here"));
  flaky.down = true;
  assert.deepEqual(await cas.get(cid), data);
  assert.equal(await cas.getFile(cid, scratch.join("file")), data.length);
  assert.deepEqual(await cas.missing([cid]), []);
  assert.equal(await cas.put(data), cid, "the remote is known to hold it");
  const unreachable = (error: unknown) => isError(error, "unreachable");
  await assert.rejects(cas.get(elsewhere), unreachable);
  await assert.rejects(cas.has(elsewhere), unreachable);
  const fresh = noise(300_000);
  await assert.rejects(cas.put(fresh), (error) => {
    return isError(error, "unreachable") && error.message.includes(cidOf(fresh)) &&
      error.message.includes(remote);
  });
  assert.deepEqual(await cas.get(cidOf(fresh)), fresh, "it is kept here");
  await assert.rejects(cas.missing([cidOf(fresh)]), unreachable);
  await assert.rejects(cas.flush(), unreachable);
  flaky.down = false;
  assert.deepEqual(await cas.missing([cidOf(fresh)]), [cidOf(fresh)], "it is not shared yet");
  assert.deepEqual(await cas.flush(), { uploaded: 1, evicted: 0, freed: 0, damaged: [] });
  assert.deepEqual(await there.get(cidOf(fresh)), fresh);
  assert.equal(await isMarked(local, cidOf(fresh)), true);
});

Deno.test("a fetch that breaks off keeps nothing here, and the next one gets the blob", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  const data = noise(500_000);
  const cid = await there.put(data);
  let broken = true;
  const breaking: Cas = {
    ...new Flaky(there).cas,
    async getStream(cid) {
      const body = await there.getStream(cid);
      if (!broken || body === null) return body;
      const cut = body.stream.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform: () => Promise.reject(new Error("the line went dead")),
        }),
      );
      return { length: body.length, stream: cut };
    },
  };
  await using cas = await openCache(scratch.path, { remote: breaking });
  await assert.rejects(cas.get(cid), /the line went dead/);
  await assert.rejects(cas.getFile(cid, scratch.join("file")), /the line went dead/);
  assert.equal(await exists(scratch.join("file")), false);
  assert.deepEqual(await leftovers(local), []);
  assert.equal((await cas.usage()).tiers?.local, 0);
  broken = false;
  assert.deepEqual(await cas.get(cid), data);
});

Deno.test("a cache whose directory cannot be written passes blobs on", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  await using cas = await openCache(scratch.path);
  const [small, large] = [noise(400), noise(400_000)];
  const cids = [await there.put(small), await there.put(large)];
  await Deno.remove(`${local}/tmp`);
  for (const [i, data] of [small, large].entries()) {
    const cid = cids[i] as Cid;
    assert.deepEqual(await cas.get(cid), data);
    const body = await cas.getStream(cid);
    assert.deepEqual(await new Response(body?.stream as ReadableStream).bytes(), data);
    assert.equal(await cas.getFile(cid, scratch.join("file")), data.length);
  }
  const cid = await cas.put(text("passed on"));
  assert.deepEqual(await there.get(cid), text("passed on"));
  await Deno.writeFile(scratch.join("source"), large.slice(9));
  assert.deepEqual(await there.get(await cas.putFile(scratch.join("source"))), large.slice(9));
});

Deno.test("a put that is cancelled while it is uploaded says so, and the upload goes on", async () => {
  await using scratch = await TempDir.make();
  await using there = await openDisk({ path: tiersIn(scratch.path).remote });
  const started = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const slow: Cas = {
    ...new Flaky(there).cas,
    async put(data, limits) {
      started.resolve();
      await go.promise;
      return await there.put(data, limits);
    },
  };
  await using cas = await openCache(scratch.path, { remote: slow });
  const stop = new AbortController();
  const put = cas.put(text("slow"), { signal: stop.signal });
  await started.promise;
  stop.abort();
  await assert.rejects(put, (error) => isError(error, "cancelled"));
  go.resolve();
  await cas.put(text("slow"));
  assert.deepEqual(await there.get(cidOf(text("slow"))), text("slow"));
});

Deno.test("a served cache gives small blobs at hand and compressed ones as frames, never damaged ones", async () => {
  await using scratch = await TempDir.make();
  const { local } = tiersIn(scratch.path);
  await using cas = await openCache(scratch.path);
  const [small, large] = [noise(400), new Uint8Array(400_000).map((_, i) => i >> 9)];
  const [cid, zeros] = [await cas.put(small), await cas.put(large)];
  assert.deepEqual(cas.atHand(cid), small);
  assert.equal(cas.sizeAtHand(zeros), large.length);
  const frame = await cas.getFrame(zeros);
  assert.ok(frame !== null && frame.blob === large.length && frame.length < 50_000);
  const bytes = await new Response(frame.stream as ReadableStream).bytes();
  assert.deepEqual(new Uint8Array(zstdDecompressSync(bytes)), large);
  await damageObject(local, zeros, "flipped");
  assert.equal(await cas.getFrame(zeros), null);
  const body = await cas.getStream(zeros);
  assert.deepEqual(await new Response(body?.stream as ReadableStream).bytes(), large);
  const again = await cas.getFrame(zeros);
  assert.ok(again !== null, "it is mended");
  await again.stream.cancel();
  assert.equal(await cas.getFrame(cidOf(text("absent"))), null);
  assert.equal(cas.atHand(cidOf(text("absent"))), null);
});
