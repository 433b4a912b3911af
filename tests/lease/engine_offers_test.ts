import assert from "node:assert/strict";
import { type FakeWorker, Rig, SAMPLE, settle } from "./engine_kit.ts";

/** Workers that wait in a long-poll, and which of them were told that work waits. */
class Crowd {
  readonly told: string[] = [];
  readonly workers: FakeWorker[] = [];
  readonly rig: Rig;

  constructor(rig: Rig) {
    this.rig = rig;
  }

  async join(count: number, prefix = "w"): Promise<void> {
    for (let n = 0; n < count; n++) {
      const worker = await this.rig.joined(`${prefix}${n}`);
      this.workers.push(worker);
      this.park(worker);
    }
    await settle();
  }

  /** Wait for messages once. */
  park(worker: FakeWorker): void {
    worker.messages(0, 25).then((found) => {
      if (found.some(({ kind }) => kind === "work")) this.told.push(worker.name);
    });
  }

  named(name: string): FakeWorker {
    const found = this.workers.find((worker) => worker.name === name);
    if (found === undefined) throw new Error(`no worker ${name}`);
    return found;
  }
}

Deno.test("as many workers hear of work as there are jobs, the longest idle first", async () => {
  await using rig = await Rig.make();
  const crowd = new Crowd(rig);
  await crowd.join(10);
  await Promise.all([rig.submit(), rig.submit(), rig.submit()]);
  await settle();
  assert.deepEqual(crowd.told, ["w0", "w1", "w2"]);
  await rig.submit();
  await settle();
  assert.deepEqual(crowd.told, ["w0", "w1", "w2", "w3"]);
});

Deno.test("a burst of jobs wakes each worker once, and those that have enough are left alone", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 1 } } });
  const crowd = new Crowd(rig);
  await crowd.join(5);
  for (let n = 0; n < 200; n++) await rig.submit();
  await settle();
  assert.deepEqual(crowd.told, ["w0", "w1", "w2", "w3", "w4"]);
  for (const worker of crowd.workers) {
    await worker.take();
    assert.equal(await worker.acquire(), "slots");
    crowd.park(worker);
  }
  await rig.clock.advance(5000);
  assert.equal(crowd.told.length, 5);
});

Deno.test("a worker that hears of work and comes again until there is none hears it once", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 4 } } });
  const crowd = new Crowd(rig);
  await crowd.join(1);
  for (let n = 0; n < 3; n++) await rig.submit();
  await settle();
  const worker = crowd.named("w0");
  crowd.park(worker);
  for (let n = 0; n < 3; n++) await worker.take();
  assert.equal(await worker.acquire(), "nothing");
  await rig.clock.advance(3000);
  assert.deepEqual(crowd.told, ["w0"]);
});

Deno.test("an offer that its worker does not follow within a second goes to another", async () => {
  await using rig = await Rig.make();
  const crowd = new Crowd(rig);
  await crowd.join(3);
  const { lease } = await rig.submit();
  await settle();
  assert.deepEqual(crowd.told, ["w0"]);
  crowd.park(crowd.named("w0"));
  await rig.clock.advance(999);
  assert.deepEqual(crowd.told, ["w0"]);
  await rig.clock.advance(1);
  assert.deepEqual(crowd.told, ["w0", "w1"]);
  assert.equal(await crowd.named("w1").take(), lease);
});

Deno.test("a lone worker that missed an offer is asked again, less and less often", async () => {
  await using rig = await Rig.make();
  const crowd = new Crowd(rig);
  await crowd.join(1);
  await rig.submit();
  const worker = crowd.named("w0");
  const moments: number[] = [];
  for (let second = 0; second < 40; second++) {
    await settle();
    if (crowd.told.length > moments.length) {
      moments.push(second);
      crowd.park(worker);
    }
    if (second % 20 === 19) crowd.park(worker);
    await rig.clock.advance(1000);
  }
  assert.deepEqual(moments, [0, 2, 5, 10, 19, 36]);
});

Deno.test("a heartbeat, a report and a loss wake nobody else", async () => {
  await using rig = await Rig.make();
  const crowd = new Crowd(rig);
  await rig.submit();
  await rig.submit();
  const worker = await rig.joined("busy");
  const leases = [await worker.take(), await worker.take()];
  await crowd.join(4);
  await worker.heartbeat(...leases);
  await worker.report(leases[0] ?? 0);
  await rig.clock.advance(3000);
  assert.deepEqual(crowd.told, []);
  await worker.lost(leases[1] ?? 0);
  await rig.clock.advance(1000);
  assert.equal(crowd.told.length, 1, "a job that is queued again is offered like any other");
});

Deno.test("only a worker that fits, has a free slot, is not pressed and takes work is told", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 1, max_load: 1 }, gpu: {} } });
  const crowd = new Crowd(rig);
  await rig.submit();
  const full = await rig.joined("full");
  await full.take();
  const loaded = rig.worker("loaded");
  loaded.sample = { ...SAMPLE, load1: 40 };
  await loaded.register();
  const paused = await rig.joined("paused");
  await rig.engine.pause("paused");
  const unfit = await rig.joined("unfit", { pool: "gpu" });
  for (const worker of [full, loaded, paused, unfit]) crowd.park(worker);
  await settle();
  await rig.submit({ requires: { pool: "lab" } });
  await rig.clock.advance(2000);
  assert.deepEqual(crowd.told, []);
  await rig.engine.resume("paused");
  await settle();
  assert.deepEqual(crowd.told, ["paused"]);
});

Deno.test("a worker that was not waiting is told at its next poll", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  await rig.submit();
  assert.deepEqual(await worker.messages(7, 25), [{ kind: "work", id: 7 }]);
  const again = worker.messages(7, 0);
  assert.deepEqual(await again, [], "told once");
});

Deno.test("work that waits is offered after a start of the server, and after a pool grows", async () => {
  await using rig = await Rig.make();
  const crowd = new Crowd(rig);
  rig.engine.setPools({ lab: { evaluations: 0 } });
  await rig.submit();
  await crowd.join(1);
  assert.deepEqual(crowd.told, []);
  rig.engine.setPools({ lab: { evaluations: 1 } });
  await settle();
  assert.deepEqual(crowd.told, ["w0"]);
  await rig.restart();
  crowd.park(crowd.named("w0"));
  await settle();
  assert.deepEqual(crowd.told, ["w0", "w0"]);
});

Deno.test("a worker that refuses what it was offered leaves it to another", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 1, min_memory_gb: 8 } } });
  const crowd = new Crowd(rig);
  await crowd.join(2);
  const { lease } = await rig.submit();
  await settle();
  assert.deepEqual(crowd.told, ["w0"]);
  const first = crowd.named("w0");
  first.sample = { ...SAMPLE, memory_available: 1e9 };
  assert.equal(await first.acquire(), "memory");
  await settle();
  assert.deepEqual(crowd.told, ["w0", "w1"]);
  assert.equal(await crowd.named("w1").take(), lease);
});
