/** @module Garbage collection in a bucket, alone and behind a cache. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { type Cid, collectGarbage, objectName, openCached } from "../../lib/cas/mod.ts";
import { objectKey } from "../../lib/cas/objects.ts";
import type { ObjectsStore } from "../../lib/cas/objects_cas.ts";
import { openS3 } from "../../lib/cas/s3.ts";
import { isError, nullLog, stderrLog, systemClock } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { hastyClock, noise } from "./bucket_kit.ts";
import { FakeS3, refuse } from "./s3_fake.ts";
import { s3Env } from "./s3_kit.ts";

/** When objects were written. */
const MODIFIED = Date.parse("2026-01-02T03:04:05Z");
const HOUR_MS = 3_600_000;
const text = (value: string) => new TextEncoder().encode(value);
const finds = (...cids: Cid[]) => async (found: (cid: Cid) => unknown) => {
  for (const cid of cids) await found(cid);
};

Deno.test("a collection in a bucket removes what is old by more than clocks differ", async () => {
  await using fake = new FakeS3();
  fake.now = () => MODIFIED;
  await using tmp = await TempDir.make();
  let now = MODIFIED + 10 * 60_000;
  const clock: typeof systemClock = { ...systemClock, now: () => now };
  await using cas = await openS3({
    url: "s3://bucket",
    env: s3Env(fake.url),
    tmp: tmp.path,
    clock,
  });
  const named = await cas.put(text("named"));
  const live = await cas.put(text(JSON.stringify({ named })));
  const garbage = await cas.put(text("garbage"));
  const options = { find: finds(live) };
  // Old enough by our clock, and not by the bucket's, which may be slow.
  const young = await collectGarbage(cas, { ...options, graceMs: 60_000 });
  assert.deepEqual([young.live, young.removed, young.young], [2, 0, 1]);
  now = MODIFIED + 20 * 60_000;
  const report = await collectGarbage(cas, { ...options, graceMs: 60_000 });
  assert.deepEqual([report.live, report.removed, report.young], [2, 1, 0]);
  assert.deepEqual(await cas.missing([named, live, garbage]), [garbage]);
  assert.deepEqual(await cas.get(await cas.put(text("garbage"))), text("garbage"));
});

Deno.test("a collection through a cache removes a blob from both tiers, with its marker", async () => {
  await using fake = new FakeS3();
  fake.now = () => MODIFIED;
  await using tmp = await TempDir.make();
  const where = "s3://bucket";
  const env = s3Env(fake.url);
  const remote = await openS3({ url: where, env, tmp: tmp.path, clock: systemClock });
  await using cas = await openCached({
    path: tmp.join("local"),
    remote,
    where,
    clock: systemClock,
    log: stderrLog,
  });
  const live = await cas.put(text("live"));
  const garbage = await cas.put(text("garbage"));
  const elsewhere = await remote.put(text("what another machine left"));
  const report = await collectGarbage(cas, { find: finds(live), graceMs: -HOUR_MS });
  assert.deepEqual([report.blobs, report.live, report.removed], [3, 1, 2]);
  assert.deepEqual(await remote.missing([live, garbage, elsewhere]), [garbage, elsewhere]);
  for (const cid of [garbage, elsewhere]) assert.equal(await cas.has(cid), false);
  assert.deepEqual((await cas.usage()).tiers?.remote, 1);
  assert.deepEqual(await cas.get(live), text("live"));
});

const DAY_MS = 86_400_000;

/** A bucket whose clock is the system's, and what of a blob is in it. */
async function setUp() {
  const stack = new AsyncDisposableStack();
  const fake = stack.use(new FakeS3());
  const tmp = stack.use(await TempDir.make());
  const open = async (clock = systemClock) =>
    stack.use(await openS3({ url: "s3://bucket", env: s3Env(fake.url), tmp: tmp.path, clock }));
  const age = (cid: Cid, ms: number) => fake.modified.set(objectKey(cid), Date.now() - ms);
  const beside = (cid: Cid) =>
    [...fake.objects.keys()].filter((key) => key.includes(objectName(cid)))
      .map((key) => key.slice(key.lastIndexOf("/") + 1)).sort();
  const requests = async (work: () => Promise<unknown>) => {
    fake.seen.length = 0;
    await work();
    return fake.seen.map(({ method, url }) =>
      `${method} ${url.pathname.slice(url.pathname.lastIndexOf("/") + 1)}`
    );
  };
  return {
    fake,
    tmp,
    open,
    age,
    beside,
    requests,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Each way to be told that a blob is there. */
const TOLD: Record<string, (cas: ObjectsStore, data: Uint8Array, cid: Cid) => Promise<unknown>> = {
  put: (cas, data) => cas.put(data),
  "a put of a stream": (cas, data) => cas.putStream(new Blob([data.slice()]).stream()),
  "a put of what is expected": (cas, data, cid) =>
    cas.putStream(new Blob([data.slice()]).stream(), { expectedCid: cid }),
  has: (cas, _, cid) => cas.has(cid),
  missing: (cas, _, cid) => cas.missing([cid]),
  size: (cas, _, cid) => cas.sizeOf(cid),
  "a checked size": (cas, _, cid) => cas.sizeOf(cid, { check: true }),
};

for (const [name, told] of Object.entries(TOLD)) {
  Deno.test(`an old object of a bucket is kept from a collection by ${name}`, async () => {
    await using bucket = await setUp();
    for (const data of [text(`old ${name}`), noise(200_000)]) {
      const cid = await (await bucket.open()).put(data);
      bucket.age(cid, 3 * DAY_MS);
      const cas = await bucket.open();
      await told(cas, data, cid);
      assert.deepEqual(await cas.collect([cid], DAY_MS), []);
      assert.deepEqual(bucket.beside(cid), ["bytes.zst", "kept"]);
      // Two days later nobody has asked again.
      bucket.fake.modified.set(
        `${objectKey(cid).replace("bytes.zst", "kept")}`,
        Date.now() - 2 * DAY_MS,
      );
      const dry = await collectGarbage(cas, { find: finds(), graceMs: DAY_MS, dryRun: true });
      const report = await collectGarbage(cas, { find: finds(), graceMs: DAY_MS });
      assert.deepEqual([dry.removed, report.removed], [1, 1]);
      assert.deepEqual(bucket.beside(cid), []);
    }
  });
}

Deno.test("a read keeps nothing, and a young object costs a put and a question one request", async () => {
  await using bucket = await setUp();
  const data = text("young");
  const cid = await (await bucket.open()).put(data);
  const cas = await bucket.open();
  assert.deepEqual(await bucket.requests(() => cas.has(cid)), ["HEAD bytes.zst"]);
  assert.deepEqual(await bucket.requests(() => cas.put(data)), ["PUT bytes.zst", "HEAD bytes.zst"]);
  bucket.age(cid, 3 * DAY_MS);
  const late = await bucket.open();
  await late.get(cid);
  assert.deepEqual(bucket.beside(cid), ["bytes.zst"]);
  // That the bucket is there is asked once.
  const first = (await bucket.requests(() => late.has(cid))).filter((one) => one !== "HEAD bucket");
  assert.deepEqual(first, ["HEAD bytes.zst", "PUT kept", "HEAD doomed", "HEAD bytes.zst"]);
  assert.deepEqual(await bucket.requests(() => late.has(cid)), ["HEAD bytes.zst"], "it was lately");
});

Deno.test("a collection that has looked before a put kept the object lets the put write it again", async () => {
  await using bucket = await setUp();
  const data = text("raced");
  const cid = await (await bucket.open()).put(data);
  bucket.age(cid, 3 * DAY_MS);
  const [collector, writer] = [await bucket.open(), await bucket.open()];
  let put: Promise<unknown> | null = null;
  const waits = Promise.withResolvers<void>();
  bucket.fake.hook = async ({ method, url }) => {
    if (method === "HEAD" && url.pathname.endsWith("/doomed")) waits.resolve();
    if (method === "DELETE" && url.pathname.endsWith("/bytes.zst") && put === null) {
      // The collection has decided. The put finds the object, and must not believe in it.
      put = writer.put(data);
      await waits.promise;
    }
    return null;
  };
  assert.equal((await collector.collect([cid], DAY_MS)).length, 1);
  assert.ok(put !== null);
  await put;
  assert.deepEqual(await writer.get(cid), data);
  assert.ok(bucket.beside(cid).includes("bytes.zst"));
  assert.ok(!bucket.beside(cid).includes("doomed"));
});

Deno.test("a removal whose answer is lost is not repeated, and is waited for by whoever puts", async () => {
  await using bucket = await setUp();
  const data = text("lost answer");
  const cid = await (await bucket.open()).put(data);
  bucket.age(cid, 3 * DAY_MS);
  bucket.fake.hook = ({ method, url }) =>
    method === "DELETE" && url.pathname.endsWith("/bytes.zst")
      ? refuse(500, "InternalError")
      : null;
  await assert.rejects(
    (await bucket.open()).collect([cid], DAY_MS),
    (error) => isError(error, "unavailable"),
  );
  assert.equal(bucket.fake.count("DELETE", "bytes.zst"), 1);
  assert.deepEqual(bucket.beside(cid), ["bytes.zst", "doomed"]);
  bucket.fake.hook = () => null;
  const writer = await bucket.open(hastyClock());
  assert.equal(await writer.put(data), cid);
  assert.deepEqual(await writer.collect([cid], DAY_MS), [], "it is kept");
  // A day later the sweep takes what the removal left.
  bucket.fake.modified.set(objectKey(cid).replace("bytes.zst", "doomed"), Date.now() - 2 * DAY_MS);
  assert.deepEqual(await writer.sweep({ dryRun: true }), { count: 1, bytes: 36 });
  assert.deepEqual(await writer.sweep(), { count: 1, bytes: 36 });
  assert.deepEqual(bucket.beside(cid), ["bytes.zst", "kept"]);
});

Deno.test("a bucket without conditional writes says that a collection has to be alone", async () => {
  await using bucket = await setUp();
  const cas = await bucket.open();
  assert.equal(await cas.unsafeBecause?.(), null);
  bucket.fake.hook = ({ method }) => {
    if (method === "PUT") bucket.fake.objects.clear();
    return null;
  };
  assert.match(await cas.unsafeBecause?.() ?? "", /If-None-Match/);
  assert.deepEqual([...bucket.fake.objects.keys()], []);
});

Deno.test("a sweep of a bucket gives up uploads that a crash ended, and counts their bytes", async () => {
  await using bucket = await setUp();
  const cas = await bucket.open();
  bucket.fake.hook = ({ url }) =>
    url.searchParams.has("uploads") ? refuse(403, "AccessDenied") : null;
  assert.deepEqual(await cas.sweep(), { count: 0, bytes: 0 }, "who may not list them");
  const large = noise(9 * 1024 * 1024);
  const stop = new AbortController();
  const midway = Promise.withResolvers<void>();
  bucket.fake.hook = async ({ method, url }) => {
    if (method !== "POST" || !url.searchParams.has("uploadId")) return null;
    midway.resolve();
    // It never gets an answer: this process ends here, as far as the bucket sees.
    await new Promise((resolve) => stop.signal.addEventListener("abort", resolve));
    return refuse(400, "Gone");
  };
  const put = cas.put(large).catch((error) => error);
  await midway.promise;
  assert.deepEqual(await cas.sweep(), { count: 0, bytes: 0 }, "it may be under way");
  for (const [id, { key }] of bucket.fake.begun) {
    bucket.fake.begun.set(id, { key, at: Date.now() - 3 * DAY_MS });
  }
  const { count, bytes } = await cas.sweep({ dryRun: true });
  assert.ok(count === 1 && bytes > large.length);
  assert.equal((await collectGarbage(cas, { find: finds(), graceMs: DAY_MS })).leftovers.count, 1);
  assert.equal(bucket.fake.uploads.size, 0);
  stop.abort();
  await put;
});

Deno.test("a cache asks its remote again about what that kept long ago, and goes by its marker while it is away", async () => {
  await using bucket = await setUp();
  const where = "s3://bucket";
  const local = bucket.tmp.join("cache");
  const cas = await openCached({
    path: local,
    remote: await bucket.open(hastyClock()),
    where,
    clock: systemClock,
    log: nullLog,
  });
  const cid = await cas.put(text("kept"));
  const marker = join(local, "blake3", objectName(cid), "remote");
  const asked = () => bucket.requests(() => cas.missing([cid]));
  assert.deepEqual(await asked(), [], "it was put just now");
  const longAgo = async () => await Deno.utime(marker, 0, Date.now() / 1000);
  await longAgo();
  assert.equal((await asked()).length, 1);
  assert.deepEqual(await asked(), []);
  // What another machine's collection took is lacking.
  await longAgo();
  bucket.fake.objects.delete(objectKey(cid));
  assert.deepEqual(await cas.missing([cid]), [cid]);
  await cas.put(text("kept"));
  await longAgo();
  bucket.fake.hook = () => refuse(503, "SlowDown");
  assert.deepEqual(await cas.missing([cid]), []);
});
