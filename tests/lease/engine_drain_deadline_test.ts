/** @module A drained worker is empty by its deadline, and says why it was drained. */

import assert from "node:assert/strict";
import { Rig } from "./engine_kit.ts";

Deno.test("what a drained worker holds at its deadline is queued again, and nothing before", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await rig.engine.drain("w", "a new disk", 100);
  const [view] = rig.engine.listWorkers();
  assert.equal(view?.standing_reason, "a new disk");
  assert.notEqual(view?.drain_by, null);
  await worker.live(90, lease);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  await worker.live(20, lease);
  assert.equal((await worker.heartbeat(lease)).get(lease), "stale");
  const details = await rig.engine.showJob(job);
  assert.deepEqual([details.state, details.attempts], ["open", 1]);
  assert.match(details.leases[0]?.reason ?? "", /had to be drained/);
  assert.ok(details.lease > lease);
});

Deno.test("a drain's deadline holds across a restart of the server", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await rig.engine.drain("w", null, 100);
  await worker.live(50, lease);
  await rig.restart();
  await worker.live(40, lease);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  await worker.live(20, lease);
  assert.equal((await worker.heartbeat(lease)).get(lease), "stale");
});

Deno.test("a resumed worker keeps what it holds, and a drain without a deadline waits", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await rig.engine.drain("w", "by mistake", 100);
  await rig.engine.resume("w");
  assert.equal(rig.engine.listWorkers()[0]?.standing_reason, null);
  await worker.live(200, lease);
  await rig.engine.drain("w");
  await worker.live(500, lease);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  await worker.report(lease);
});

Deno.test("a drain can get a deadline later", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await rig.engine.drain("w", "slowly");
  await rig.engine.drain("w", null, 10);
  assert.equal(rig.engine.listWorkers()[0]?.standing_reason, "slowly");
  await worker.live(20, lease);
  assert.equal((await worker.heartbeat(lease)).get(lease), "stale");
});
