/** @module Garbage collection in a bucket, alone and behind a cache. */

import assert from "node:assert/strict";
import { type Cid, collectGarbage, openCached } from "../../lib/cas/mod.ts";
import { openS3 } from "../../lib/cas/s3.ts";
import { stderrLog, systemClock } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { FakeS3 } from "./s3_fake.ts";
import { s3Env } from "./s3_kit.ts";

/** When the fake's objects were written. */
const MODIFIED = Date.parse("2026-01-02T03:04:05Z");
const HOUR_MS = 3_600_000;
const text = (value: string) => new TextEncoder().encode(value);
const finds = (...cids: Cid[]) => async (found: (cid: Cid) => unknown) => {
  for (const cid of cids) await found(cid);
};

Deno.test("a collection in a bucket removes what is old by more than clocks differ", async () => {
  await using fake = new FakeS3();
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
