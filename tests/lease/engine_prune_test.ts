/** @module What was over long ago is forgotten, and fencing ids go on. */

import assert from "node:assert/strict";
import { Rig } from "./engine_kit.ts";

/** What stands for a day here: virtual time is walked through a timer at a time. */
const DAY_MS = 300_000;
const KEPT = 10 * DAY_MS / 86_400_000;

async function days(rig: Rig, count: number): Promise<void> {
  for (let day = 0; day < count; day++) await rig.clock.advance(DAY_MS);
}

Deno.test("jobs that ended long ago are deleted with their leases and events, open ones never", async () => {
  await using rig = await Rig.make({ keepDays: KEPT, pools: { lab: {} } });
  const worker = await rig.joined("w");
  const done = await rig.submit();
  await worker.report(await worker.take());
  const cancelled = await rig.submit();
  await rig.engine.cancelJob(cancelled.job, "no");
  await rig.engine.drain("w");
  const open = await rig.submit();
  await days(rig, 5);
  assert.equal((await rig.engine.showJob(done.job)).state, "reported");
  await days(rig, 6);
  await assert.rejects(rig.engine.showJob(done.job), { code: "not_found" });
  await assert.rejects(rig.engine.showJob(cancelled.job), { code: "not_found" });
  assert.equal((await rig.engine.showJob(open.job)).state, "open");
  const left = await rig.db.read((tx) =>
    tx.all("SELECT * FROM lease_events WHERE job_id IN (?, ?)", [done.job, cancelled.job])
  );
  assert.deepEqual(left, []);
});

Deno.test("a fencing id does not come back though every lease ended long ago", async () => {
  await using rig = await Rig.make({ keepDays: KEPT });
  const worker = await rig.joined("w");
  const ids: number[] = [];
  for (let n = 0; n < 3; n++) {
    ids.push((await rig.submit()).lease);
    await worker.report(await worker.take());
  }
  await days(rig, 12);
  const jobs = await rig.engine.listJobs();
  assert.deepEqual(jobs.map(({ lease }) => lease), [Math.max(...ids)], "the newest stays");
  await rig.restart();
  const { lease } = await rig.submit();
  assert.ok(lease > Math.max(...ids), `${lease} after ${ids}`);
});

Deno.test("a worker that was not heard for long and holds nothing is forgotten", async () => {
  await using rig = await Rig.make({ keepDays: KEPT });
  await rig.joined("gone");
  const stays = await rig.joined("stays");
  for (let day = 0; day < 11; day++) {
    await rig.clock.advance(DAY_MS);
    await stays.heartbeat();
  }
  await rig.clock.advance(DAY_MS);
  assert.deepEqual(rig.engine.listWorkers().map(({ worker }) => worker), ["stays"]);
  await rig.restart();
  assert.deepEqual(rig.engine.listWorkers().map(({ worker }) => worker), ["stays"]);
});

Deno.test("nothing is forgotten unless it is asked for", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  const { job } = await rig.submit();
  await worker.report(await worker.take());
  await rig.submit();
  await days(rig, 20);
  assert.equal((await rig.engine.showJob(job)).state, "reported");
  assert.equal(rig.engine.listWorkers().length, 1);
});
