/** @module A job that runs for longer than it may is revoked, though its worker lives. */

import assert from "node:assert/strict";
import { Rig, TIMING } from "./engine_kit.ts";

/** Let time pass, with heartbeats. */
async function pass(rig: Rig, beat: () => Promise<unknown>, seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= TIMING.renew) {
    await rig.clock.advance(Math.min(left, TIMING.renew) * 1000);
    await beat();
  }
}

Deno.test("a job is revoked once it ran for its timeout and the grace period, counted from its start", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit({ timeoutSeconds: 100 });
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await pass(rig, () => worker.heartbeat(lease), 200);
  await worker.started(lease);
  await pass(rig, () => worker.heartbeat(lease), 100 + TIMING.grace - TIMING.renew);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  await worker.started(lease);
  await pass(rig, () => worker.heartbeat(lease), TIMING.renew);
  assert.equal((await worker.heartbeat(lease)).get(lease), "revoked");
  const { reason } = await rig.engine.showJob(job);
  assert.match(reason ?? "", /longer than its 100 seconds/);
  await worker.report(lease);
  assert.equal((await rig.engine.showJob(job)).state, "cancelled");
});

Deno.test("the time goes on counting across a restart of the server", async () => {
  await using rig = await Rig.make();
  await rig.submit({ timeoutSeconds: 100 });
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await worker.started(lease);
  await pass(rig, () => worker.heartbeat(lease), 90);
  await rig.restart();
  await worker.register();
  await pass(rig, () => worker.heartbeat(lease), TIMING.grace);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  await pass(rig, () => worker.heartbeat(lease), 2 * TIMING.renew);
  assert.equal((await worker.heartbeat(lease)).get(lease), "revoked");
});

Deno.test("a job that reports in time, or may take as long as it does, is not revoked", async () => {
  await using rig = await Rig.make();
  const first = await rig.submit({ timeoutSeconds: 100 });
  await rig.submit();
  const worker = await rig.joined("w");
  const [quick, slow] = [await worker.take(), await worker.take()];
  await worker.started(quick);
  await worker.started(slow);
  await worker.report(quick);
  await pass(rig, () => worker.heartbeat(slow), 1000);
  assert.equal((await worker.heartbeat(slow)).get(slow), "renewed");
  assert.equal((await rig.engine.showJob(first.job)).state, "reported");
});

Deno.test("a timeout is a number of seconds above 0", async () => {
  await using rig = await Rig.make();
  for (const timeoutSeconds of [0, -1, NaN, Infinity]) {
    await assert.rejects(rig.submit({ timeoutSeconds }), { code: "invalid_request" });
  }
});
