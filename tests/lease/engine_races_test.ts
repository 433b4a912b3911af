/** @module The races of the lease protocol that the server decides, each as one scenario. */

import assert from "node:assert/strict";
import type { Grant } from "../../lib/lease/mod.ts";
import { type FakeWorker, Rig, settle } from "./engine_kit.ts";

interface Scene {
  readonly rig: Rig;
  readonly worker: FakeWorker;
  readonly job: number;
  readonly lease: number;
}

/** Start `first`, let it come to its transaction, and start `second` before that runs. */
async function closely<A, B>(
  first: () => Promise<A>,
  second: () => Promise<B>,
): Promise<[A, B]> {
  const a = first();
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  return await Promise.all([a, second()]);
}

const RACES: Record<string, (scene: Scene) => Promise<void>> = {
  "a heartbeat renews a lease whose job is still starting": async ({ rig, worker, lease, job }) => {
    await worker.live(400, lease);
    assert.equal((await rig.engine.showJob(job)).lease, lease);
  },
  "an expiry loses to a heartbeat that commits between its choice and its own transaction": async (
    { rig, worker, lease, job },
  ) => {
    await rig.clock.advance(299_999);
    rig.clock.lapse(1);
    const [answers] = await closely(() => worker.heartbeat(lease), () => rig.engine.sweep());
    assert.equal(answers.get(lease), "renewed");
    assert.equal((await rig.engine.showJob(job)).lease, lease);
  },
  "an expiry loses to a report that commits between its choice and its own transaction": async (
    { rig, worker, lease, job },
  ) => {
    await rig.clock.advance(299_999);
    rig.clock.lapse(1);
    await closely(() => worker.report(lease), () => rig.engine.sweep());
    assert.equal((await rig.engine.showJob(job)).state, "reported");
  },
  "an acquire whose answer was lost gets the same lease, and none is left over to expire": async (
    { rig, worker },
  ) => {
    await rig.submit();
    const [first, again] = await Promise.all([worker.acquire("same"), worker.acquire("same")]);
    assert.deepEqual(first, again);
    assert.equal(rig.engine.listWorkers()[0]?.leases.length, 2);
  },
  "a report whose answer was lost gets the same receipt, also across a crash of the server": async (
    { rig, worker, lease },
  ) => {
    const receipt = await worker.report(lease);
    await rig.restart(false);
    assert.deepEqual(await worker.report(lease), receipt);
    assert.equal((await rig.notes()).length, 1);
  },
  "a report of the old holder after the job was queued again is refused and kept": async (
    { rig, worker, lease, job },
  ) => {
    await worker.lost(lease);
    await assert.rejects(worker.report(lease), { code: "stale_lease" });
    assert.equal((await rig.engine.evidence(job)).length, 1);
  },
  "a start that arrives after the lease ended is stale": async ({ rig, worker, lease }) => {
    await rig.clock.advance(301_000);
    await assert.rejects(worker.started(lease), { code: "stale_lease" });
  },
  "a start repeated after the report is stale": async ({ worker, lease }) => {
    await worker.started(lease);
    await worker.report(lease);
    await assert.rejects(worker.started(lease), { code: "stale_lease" });
  },
  "a cancel during the start is told by message and by every heartbeat": async (
    { rig, worker, lease, job },
  ) => {
    await Promise.all([rig.engine.cancelJob(job, "no"), worker.started(lease)]);
    for (let n = 0; n < 3; n++) {
      assert.equal((await worker.heartbeat(lease)).get(lease), "revoked");
      assert.equal((await worker.messages(0, 0)).length, 1);
    }
  },
  "a cancel and a report at one moment: the job ends once, and never as a success after the cancel":
    async ({ rig, worker, lease, job }) => {
      const [cancelled] = await Promise.all([
        rig.engine.cancelJob(job, "no"),
        worker.report(lease),
      ]);
      assert.equal(cancelled, "revoked");
      assert.equal((await rig.engine.showJob(job)).state, "cancelled");
    },
  "a report and a cancel at one moment: the report came first": async (
    { rig, worker, lease, job },
  ) => {
    const [, cancelled] = await closely(
      () => worker.report(lease),
      () => rig.engine.cancelJob(job, "no"),
    );
    assert.equal(cancelled, "ended");
    assert.equal((await rig.engine.showJob(job)).state, "reported");
  },
  "a cancel and an acquire at one moment: the lease is not granted, or it is revoked": async (
    { rig, worker },
  ) => {
    const { job } = await rig.submit();
    const [grant, cancelled] = await closely(
      () => worker.acquire(),
      () => rig.engine.cancelJob(job, "no"),
    );
    assert.equal(cancelled, "revoked");
    const { lease } = grant as Grant;
    assert.equal((await worker.heartbeat(lease)).get(lease), "revoked");
    const other = await rig.submit();
    const idle = await rig.joined("idle");
    const order = await closely(
      () => rig.engine.cancelJob(other.job, "no"),
      () => idle.acquire(),
    );
    assert.deepEqual(order, ["cancelled", "nothing"]);
  },
  "a prompt queued across a restart of the server finds its job": async (
    { rig, worker, lease, job },
  ) => {
    const id = await rig.engine.prompt(job, 3, "go on");
    await rig.restart(false);
    assert.equal((await worker.register()).held[0]?.lease, lease);
    assert.deepEqual((await worker.messages(0, 0)).map((message) => message.id), [id]);
  },
  "a prompt whose answer was lost is answered again, and delivered no second time": async (
    { rig, worker, job },
  ) => {
    const id = await rig.engine.prompt(job, 3, "go on");
    await rig.engine.queued(worker.caller, id, null);
    await rig.engine.queued(worker.caller, id, null);
    assert.deepEqual(await worker.messages(id - 1, 0), []);
  },
  "heartbeat, report and register in any order after a reconnect come to the same": async (
    { rig, worker, lease, job },
  ) => {
    await rig.clock.advance(120_000);
    await Promise.all([worker.register(), worker.report(lease), worker.heartbeat(lease)]);
    await Promise.all([worker.heartbeat(lease), worker.report(lease), worker.register()]);
    assert.equal((await rig.engine.showJob(job)).state, "reported");
    assert.equal(rig.engine.listWorkers()[0]?.evaluations, 0);
    assert.equal((await rig.notes()).length, 1);
  },
  "a worker that takes the job again holds it on another lease: its own old report is refused":
    async (
      { rig, worker, lease, job },
    ) => {
      await rig.clock.advance(300_000);
      const next = await worker.take();
      await worker.started(next);
      await assert.rejects(worker.report(lease), { code: "stale_lease" });
      await worker.report(next);
      assert.equal((await rig.engine.showJob(job)).state, "reported");
    },
  "a worker drained while it works still reports, and takes nothing more": async (
    { rig, worker, lease },
  ) => {
    await rig.submit();
    await rig.engine.drain("w");
    assert.equal(await worker.acquire(), "draining");
    assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
    await worker.report(lease);
  },
  "a drain and an acquire at one moment: the drain came first": async ({ rig, worker }) => {
    await rig.submit();
    const [, grant] = await Promise.all([rig.engine.drain("w"), worker.acquire()]);
    assert.equal(grant, "draining");
  },
  "the server closes while workers wait: each is answered at once": async ({ rig, worker }) => {
    const parked = worker.messages(0, 25);
    await settle();
    await rig.engine.close();
    assert.deepEqual(await parked, []);
  },
  "a worker that is removed while it waits gets an empty answer": async (
    { rig, worker, lease },
  ) => {
    await worker.report(lease);
    await rig.clock.advance(60_000);
    const parked = worker.messages(0, 25);
    await settle();
    await rig.engine.removeWorker("w");
    assert.deepEqual(await parked, []);
  },
  "a queued lease that two workers want at one moment goes to one": async ({ rig, worker }) => {
    await rig.submit();
    const other = await rig.joined("v");
    const answers = await Promise.all([worker.acquire(), other.acquire()]);
    assert.equal(answers.filter((answer) => typeof answer === "object").length, 1);
  },
};

for (const [name, race] of Object.entries(RACES)) {
  Deno.test(name, async () => {
    await using rig = await Rig.make();
    const { job } = await rig.submit();
    const worker = await rig.joined("w");
    await race({ rig, worker, job, lease: await worker.take() });
  });
}
