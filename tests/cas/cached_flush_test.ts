/** @module Tests of a cache's upkeep: what is uploaded, what is dropped, what is mended. */

import assert from "node:assert/strict";
import { type Cid, cidOf, openDisk } from "../../lib/cas/mod.ts";
import { type Clock, systemClock } from "../../lib/home/mod.ts";
import { TempDir, until } from "../kit/mod.ts";
import { Flaky, isMarked, openCache, tiersIn } from "./cached_kit.ts";
import { damageObject, objectPath } from "./disk_kit.ts";
import { serveStore } from "./http_kit.ts";

const DAY = 86_400_000;
const noise = (length: number) => crypto.getRandomValues(new Uint8Array(length));

/** The system's clock, so many days ahead. */
const ahead = (days: number): Clock => ({
  ...systemClock,
  now: () => systemClock.now() + days * DAY,
});

/** Let the local copy of `cid` be as old as that, and its marker as well. */
async function age(local: string, cid: Cid, days: number): Promise<void> {
  const at = new Date(Date.now() - days * DAY);
  const object = objectPath(local, cid);
  await Deno.utime(object, at, at);
  await Deno.utime(object.replace("bytes.zst", "remote"), at, at).catch(() => {});
}

Deno.test("copies that were not used for so many days are dropped, and come back when they are", async () => {
  await using scratch = await TempDir.make();
  const { local } = tiersIn(scratch.path);
  await using cas = await openCache(scratch.path, { evictAfterDays: 7 });
  const [old, fresh] = [noise(3000), noise(3000)];
  const [cid, other] = [await cas.put(old), await cas.put(fresh)];
  await age(local, cid, 8);
  await age(local, other, 6);
  const { size } = await Deno.stat(objectPath(local, cid));
  assert.deepEqual(await cas.flush(), { uploaded: 0, evicted: 0, freed: 0, damaged: [] });
  assert.deepEqual(await cas.flush({ evict: true }), {
    uploaded: 0,
    evicted: 1,
    freed: size,
    damaged: [],
  });
  assert.deepEqual((await cas.usage()).tiers?.local, 1);
  assert.equal(await cas.has(cid), true);
  assert.equal(await cas.integrity(cid), "ok");
  assert.deepEqual(await cas.get(cid), old);
});

Deno.test("what was used lately stays, however long ago it was stored", async () => {
  await using scratch = await TempDir.make();
  const { local } = tiersIn(scratch.path);
  await using before = await openCache(scratch.path);
  const cid = await before.put(noise(3000));
  await age(local, cid, 30);
  await using cas = await openCache(scratch.path, { evictAfterDays: 7 });
  await cas.get(cid);
  assert.equal((await cas.flush({ evict: true })).evicted, 0);
  await using later = await openCache(scratch.path, { evictAfterDays: 7, clock: ahead(8) });
  assert.equal((await later.flush({ evict: true })).evicted, 1);
});

Deno.test("above its size a cache drops what was used longest ago, and no more", async () => {
  await using scratch = await TempDir.make();
  const { local } = tiersIn(scratch.path);
  await using cas = await openCache(scratch.path, { localMaxBytes: 25_000 });
  const cids: Cid[] = [];
  for (let i = 0; i < 5; i++) {
    const cid = await cas.put(noise(10_000));
    await age(local, cid, 10 - i);
    cids.push(cid);
  }
  assert.equal((await cas.flush({ evict: true })).evicted, 3);
  await using tier = await openDisk({ path: local, cache: true });
  const here = await Promise.all(cids.map((cid) => tier.has(cid)));
  assert.deepEqual(here, [false, false, false, true, true]);
  for (const cid of cids) assert.equal((await cas.get(cid))?.length, 10_000);
});

Deno.test("what is in use is not dropped, until it is no more", async () => {
  await using scratch = await TempDir.make();
  const { local } = tiersIn(scratch.path);
  await using cas = await openCache(scratch.path, { localMaxBytes: 0 });
  const data = noise(65_000).slice();
  const large = new Uint8Array(900_000);
  for (let at = 0; at < large.length; at += data.length) {
    large.set(data.subarray(0, large.length - at), at);
  }
  const ends: ((stream: ReadableStream<Uint8Array>) => Promise<unknown>)[] = [
    (stream) => stream.cancel(),
    async (stream) => {
      const reader = stream.getReader();
      while (!(await reader.read()).done);
    },
  ];
  for (const [i, end] of ends.entries()) {
    large[0] = i;
    const cid = await cas.put(large);
    const streams = [await cas.getStream(cid), await cas.getRange(cid, 5, 800_000)];
    assert.equal((await cas.flush({ evict: true })).evicted, 0);
    for (const body of streams) {
      assert.ok(body !== null);
      await end(body.stream);
    }
    assert.equal((await cas.flush({ evict: true })).evicted, 1);
    assert.equal(await (await openDisk({ path: local, cache: true })).has(cid), false);
  }
});

Deno.test("nothing is dropped that the remote does not hold: it is uploaded first", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  await using cas = await openCache(scratch.path, { localMaxBytes: 0, remote: there });
  const [lost, unshared] = [noise(3000), noise(3000)];
  await there.release(await cas.put(lost));
  await using tier = await openDisk({ path: local, cache: true });
  await tier.put(unshared);
  const flushed = await cas.flush({ evict: true });
  assert.deepEqual([flushed.uploaded, flushed.evicted], [2, 2]);
  for (const data of [lost, unshared]) {
    assert.deepEqual(await there.get(cidOf(data)), data);
    assert.deepEqual(await cas.get(cidOf(data)), data);
  }
});

Deno.test("nothing is dropped while the remote does not answer", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  const flaky = new Flaky(there);
  await using cas = await openCache(scratch.path, { localMaxBytes: 0, remote: flaky.cas });
  const cid = await cas.put(noise(3000));
  flaky.down = true;
  await assert.rejects(cas.flush({ evict: true }));
  assert.equal(await (await openDisk({ path: local, cache: true })).has(cid), true);
});

Deno.test("a copy that is damaged before it was shared is named, and not uploaded", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using tier = await openDisk({ path: local, cache: true });
  const [bad, good] = [await tier.put(noise(60_000)), await tier.put(noise(60_000))];
  await damageObject(local, bad, "flipped");
  await using cas = await openCache(scratch.path, { localMaxBytes: 0 });
  const flushed = await cas.flush({ evict: true });
  assert.deepEqual([flushed.uploaded, flushed.evicted, flushed.damaged], [1, 1, [bad]]);
  await using there = await openDisk({ path: remote });
  assert.deepEqual([await there.has(bad), await there.has(good)], [false, true]);
});

Deno.test("mending brings a whole copy to the tier that lacks one", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  await using here = await openDisk({ path: local, cache: true });
  await using cas = await openCache(scratch.path, { remote: there });
  const data = noise(60_000);
  const cid = await cas.put(data);
  assert.equal(await cas.mend(cid), "ok");
  await damageObject(local, cid, "flipped");
  assert.equal(await cas.integrity(cid), "corrupt");
  assert.equal(await cas.mend(cid), "mended");
  assert.equal(await here.integrity(cid), "ok");
  await damageObject(remote, cid, "truncated");
  assert.equal(await cas.mend(cid), "mended");
  assert.equal(await there.integrity(cid), "ok");
  await there.release(cid);
  assert.equal(await cas.mend(cid), "mended");
  assert.equal(await there.integrity(cid), "ok");
  await here.release(cid);
  assert.equal(await cas.mend(cid), "ok", "the remote is where it belongs");
  await damageObject(remote, cid, "empty");
  assert.equal(await cas.integrity(cid), "corrupt");
  assert.equal(await cas.mend(cid), "lost");
  assert.equal(await isMarked(local, cid), false);
  await cas.put(data);
  await damageObject(local, cid, "flipped");
  await damageObject(remote, cid, "flipped");
  assert.equal(await cas.mend(cid), "lost");
  assert.equal(await cas.mend(cidOf(noise(9))), "lost");
});

Deno.test("a copy that is damaged on a served remote is found without a fetch, and mended", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  const asked: string[] = [];
  await using served = await serveStore(there, scratch.path, {}, (request, answer) => {
    asked.push(request.method);
    return answer();
  });
  await using cas = await openCache(scratch.path, { remote: served.cas });
  const cid = await cas.put(noise(60_000));
  await using here = await openDisk({ path: local, cache: true });
  assert.equal(await cas.mend(cid), "ok");
  await damageObject(remote, cid, "flipped");
  assert.equal(await cas.mend(cid), "mended");
  assert.equal(await there.integrity(cid), "ok");
  await here.release(cid);
  asked.length = 0;
  assert.equal(await cas.integrity(cid), "ok");
  await damageObject(remote, cid, "flipped");
  assert.equal(await cas.integrity(cid), "corrupt");
  await there.release(cid);
  assert.equal(await cas.integrity(cid), "missing");
  assert.deepEqual([...new Set(asked)], ["HEAD"]);
});

Deno.test("a cache that is open looks after itself when it has grown, and tells of a failure", async () => {
  await using scratch = await TempDir.make();
  await using there = await openDisk({ path: tiersIn(scratch.path).remote });
  const flaky = new Flaky(there);
  const events: string[] = [];
  const log = { event: (event: string) => void events.push(event) };
  const settings = { localMaxBytes: 5_000, remote: flaky.cas, upkeep: true, log };
  {
    await using cas = await openCache(scratch.path, settings);
    const cid = await cas.put(noise(3_000));
    await cas.put(noise(3_000));
    await until("something is dropped", async () => (await cas.usage()).tiers?.local === 1);
    assert.equal((await cas.get(cid))?.length, 3_000);
    // The next run is later; a cache that is closed waits for none.
    await cas.put(noise(30_000));
  }
  assert.equal(events.length, 0, events.join());
  await using cas = await openCache(scratch.path, settings);
  const cid = await there.put(noise(30_000));
  flaky.failing = "missing";
  await cas.get(cid);
  await until("the failure is told", () => events.includes("cas.upkeep_failed"));
  assert.equal((await cas.get(cid))?.length, 30_000);
});

Deno.test("a large blob is uploaded to a served remote from where it is, without a copy", async () => {
  await using scratch = await TempDir.make();
  const { remote } = tiersIn(scratch.path);
  await using there = await openDisk({ path: remote });
  // No stream can wait in a directory that is not there.
  await using served = await serveStore(there, scratch.join("nowhere"));
  await using cas = await openCache(scratch.path, { remote: served.cas });
  const noisy = noise(65_000);
  for (const data of [new Uint8Array(3_000_000), new Uint8Array(20_000_000)]) {
    for (let at = 0; at + noisy.length < data.length; at += noisy.length) {
      data.set(noisy, at);
      data[at] = (data[at] ?? 0) ^ (at >> 8);
    }
    const cid = await cas.putStream(new Blob([data]).stream());
    assert.equal(await there.integrity(cid), "ok");
  }
});
