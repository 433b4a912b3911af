import assert from "node:assert/strict";
import { retryDelay } from "../../lib/lease/ending.ts";
import { FakeKind, type FakeWorker, Rig, settle } from "./engine_kit.ts";

/** A rig whose worker `w` holds a lease, beside one more worker that is heard throughout. */
async function held(rig: Rig): Promise<{ worker: FakeWorker; lease: number; job: number }> {
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  return { worker, lease: await worker.take(), job };
}

async function events(rig: Rig, job: number): Promise<string[]> {
  return (await rig.engine.showJob(job)).events.map(({ event }) => event);
}

Deno.test("a worker silent for the grace is unreachable, one for the toleration loses its leases, not a moment earlier", async () => {
  await using rig = await Rig.make();
  const { lease, job } = await held(rig);
  await rig.clock.advance(49_999);
  assert.equal(rig.engine.listWorkers()[0]?.reachable, true);
  assert.deepEqual(await events(rig, job), ["queued", "acquired"]);
  await rig.clock.advance(1);
  assert.deepEqual(await events(rig, job), ["queued", "acquired", "unreachable"]);
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, "unreachable");
  await rig.clock.advance(249_999);
  assert.equal((await rig.engine.showJob(job)).lease, lease);
  await rig.clock.advance(1);
  const shown = await rig.engine.showJob(job);
  assert.ok(shown.lease > lease, "queued again, under a larger lease, at once");
  assert.equal(shown.attempts, 1);
  assert.equal(shown.leases[0]?.state, "expired");
  assert.match(shown.leases[0]?.reason ?? "", /its worker w was silent for 300 seconds/);
  assert.deepEqual((await rig.notes()).map(({ what }) => what), ["lost"]);
  const next = await rig.joined("v");
  assert.equal(await next.take(), shown.lease);
});

Deno.test("heartbeats keep a lease for ever, and wake nothing in the database", async () => {
  await using rig = await Rig.make();
  const { worker, lease, job } = await held(rig);
  const before = await events(rig, job);
  await worker.live(6 * 3600, lease);
  assert.equal((await rig.engine.showJob(job)).lease, lease);
  assert.deepEqual(await events(rig, job), before);
});

Deno.test("a heartbeat renews only the leases that it lists", async () => {
  await using rig = await Rig.make();
  const { worker, lease } = await held(rig);
  const other = await rig.submit();
  const second = await worker.take();
  await worker.live(300, lease);
  assert.deepEqual([...await worker.heartbeat(lease, second)], [[lease, "renewed"], [
    second,
    "stale",
  ]]);
  assert.ok((await rig.engine.showJob(other.job)).lease > second);
});

Deno.test("a heartbeat a moment before the expiry saves the lease, with no second start", async () => {
  await using rig = await Rig.make();
  const { worker, lease, job } = await held(rig);
  await rig.clock.advance(299_999);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  await rig.clock.advance(299_999);
  assert.equal((await rig.engine.showJob(job)).lease, lease);
  assert.ok((await events(rig, job)).includes("unreachable"));
});

Deno.test("a worker that is heard again after it was unreachable has joined", async () => {
  await using rig = await Rig.make();
  const { worker, lease } = await held(rig);
  await rig.clock.advance(60_000);
  await worker.heartbeat(lease);
  const joins = (await rig.engine.events(0)).filter(({ event }) => event === "joined");
  assert.deepEqual(joins.map(({ fields }) => fields.after), [undefined, "unreachable"]);
  assert.equal(rig.engine.listWorkers()[0]?.reachable, true);
});

Deno.test("messages, reports and starts are not heartbeats", async () => {
  await using rig = await Rig.make();
  const { worker, lease, job } = await held(rig);
  for (let left = 300; left > 0; left -= 10) {
    await rig.clock.advance(10_000);
    await worker.messages(0, 0);
    if (left > 10) await worker.started(lease);
  }
  assert.equal((await rig.engine.showJob(job)).leases[0]?.state, "expired");
});

Deno.test("of a heartbeat, a report and the expiry at one moment exactly one applies, in every order", async () => {
  const calls = {
    beat: async (worker: FakeWorker, lease: number) => (await worker.heartbeat(lease)).get(lease),
    report: (worker: FakeWorker, lease: number) =>
      worker.report(lease).then(() => "reported", (error) => error.code),
    sweep: (worker: FakeWorker) => worker.rig.engine.sweep().then(() => "swept"),
  };
  type Name = keyof typeof calls;
  const orders: Name[][] = [
    ["beat", "sweep", "report"],
    ["beat", "report", "sweep"],
    ["report", "sweep", "beat"],
    ["report", "beat", "sweep"],
    ["sweep", "beat", "report"],
    ["sweep", "report", "beat"],
  ];
  for (const order of orders) {
    await using rig = await Rig.make();
    const { worker, lease, job } = await held(rig);
    await rig.clock.advance(299_999);
    // Due now, and not looked at yet.
    rig.clock.lapse(1);
    const answers = Object.fromEntries(
      await Promise.all(order.map(async (name) => [name, await calls[name](worker, lease)])),
    ) as Record<Name, string>;
    const notes = (await rig.notes()).map(({ what }) => what);
    const shown = await rig.engine.showJob(job);
    if (answers.report === "reported") {
      assert.deepEqual(notes, ["applied"], order.join());
      assert.equal(shown.state, "reported");
    } else {
      assert.equal(answers.report, "stale_lease", order.join());
      assert.deepEqual(notes, ["lost"]);
      assert.equal(answers.beat, "stale", order.join());
      assert.ok(shown.lease > lease);
    }
  }
});

Deno.test("fifty jobs of a killed worker are all queued again, once, together", async () => {
  await using rig = await Rig.make({ pools: { lab: {} } });
  for (let n = 0; n < 50; n++) await rig.submit();
  const worker = await rig.joined("w");
  for (let n = 0; n < 50; n++) await worker.take();
  await rig.clock.advance(300_000);
  const { queued, running } = (await rig.engine.status()).jobs;
  assert.deepEqual({ queued, running }, { queued: 50, running: 0 });
  const next = await rig.joined("v");
  const again = new Set<number>();
  for (let n = 0; n < 50; n++) again.add(await next.take());
  assert.equal(again.size, 50);
  assert.equal(await next.acquire(), "nothing");
});

Deno.test("a lease whose end its kind refuses does not keep the others", async () => {
  const kind = new FakeKind();
  await using rig = await Rig.make({ kinds: [kind], pools: { lab: {} } });
  const jobs = [await rig.submit(), await rig.submit(), await rig.submit()];
  const worker = await rig.joined("w");
  for (const _ of jobs) await worker.take();
  let refusals = 0;
  kind.fail = () => {
    if (refusals++ === 0) throw new Error("a fault");
  };
  await rig.clock.advance(300_000);
  assert.equal((await rig.notes()).length, 2);
  await rig.clock.advance(1000);
  assert.equal((await rig.notes()).length, 3);
  assert.ok(rig.events.some(({ event }) => event === "lease.sweep_failed"));
});

Deno.test("a wall clock that jumps a day or ten years, either way, expires nothing", async () => {
  await using rig = await Rig.make();
  const { worker, lease } = await held(rig);
  for (const days of [1, -1, -3650, 3650]) {
    rig.clock.jumpWall(days * 86_400_000);
    await worker.live(30, lease);
    assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  }
});

Deno.test("a server that was stopped for longer than the grace expires nobody, and waits a full toleration", async () => {
  await using rig = await Rig.make();
  const { worker, lease, job } = await held(rig);
  await worker.live(20, lease);
  rig.clock.lapse(3600_000);
  await rig.clock.advance(0);
  assert.equal((await rig.engine.showJob(job)).lease, lease);
  assert.ok((await rig.engine.events(0)).some(({ event }) => event === "absent"));
  await rig.clock.advance(299_999);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  await rig.clock.advance(300_000);
  assert.ok((await rig.engine.showJob(job)).lease > lease, "a silent worker expires all the same");
});

Deno.test("a server that stands still in the middle of a look expires nobody either", async () => {
  for (const fails of [false, true]) {
    await using rig = await Rig.make();
    const { worker, lease } = await held(rig);
    let goOn = () => {};
    const still = new Promise<void>((resolve) => goOn = resolve);
    const write = rig.db.write.bind(rig.db);
    rig.db.write = async (body) => {
      await still;
      if (fails) throw new Error("the disk is full");
      return await write(body);
    };
    // It looks after the grace period, finds the worker silent, and waits for the database to write that down.
    await rig.clock.advance(451_000);
    goOn();
    await settle();
    rig.db.write = write;
    await rig.clock.advance(2_000);
    assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
    await rig.clock.advance(400_000);
    assert.equal((await worker.heartbeat(lease)).get(lease), "stale");
  }
});

Deno.test("a machine that slept, whose monotonic clock stood still, expires nobody", async () => {
  await using rig = await Rig.make();
  const { worker, lease } = await held(rig);
  await rig.clock.advance(295_000);
  rig.clock.jumpWall(7200_000);
  await rig.clock.advance(200_000);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
});

Deno.test("when every remote worker falls silent at once, none expires until a second toleration is over", async () => {
  await using rig = await Rig.make();
  const jobs = [await rig.submit(), await rig.submit()];
  const [a, b] = [await rig.joined("a"), await rig.joined("b")];
  const leases = [await a.take(), await b.take()];
  await rig.clock.advance(599_999);
  assert.deepEqual(await leasesOf(rig, jobs), leases);
  assert.ok(rig.events.some(({ event }) => event === "lease.mass_silence"));
  await rig.clock.advance(1);
  assert.notDeepEqual(await leasesOf(rig, jobs), leases, "jobs come back all the same");
});

Deno.test("the silence of all but one is the silence of those", async () => {
  await using rig = await Rig.make();
  const jobs = [await rig.submit(), await rig.submit()];
  const [a, b] = [await rig.joined("a"), await rig.joined("b")];
  const leases = [await a.take(), await b.take()];
  const bystander = await rig.joined("c");
  await bystander.live(300);
  const now = await leasesOf(rig, jobs);
  assert.ok(now.every((lease, index) => lease > (leases[index] ?? Infinity)));
});

Deno.test("the server's own worker says nothing of the network", async () => {
  await using rig = await Rig.make();
  const jobs = [await rig.submit(), await rig.submit()];
  const local = rig.worker("serve", { local: true });
  await local.register();
  const [a, b] = [await rig.joined("a"), await rig.joined("b")];
  const leases = [await a.take(), await b.take()];
  await local.live(300);
  assert.deepEqual(await leasesOf(rig, jobs), leases);
});

function leasesOf(rig: Rig, jobs: readonly { job: number }[]): Promise<number[]> {
  return Promise.all(jobs.map(async ({ job }) => (await rig.engine.showJob(job)).lease));
}

Deno.test("retries wait longer and longer, the first after a silence not at all", () => {
  const ids = { uuid: () => "", random: () => 0.5 };
  const delays = (by: "silence" | "worker") =>
    [1, 2, 3, 4, 5, 6, 60].map((attempt) => retryDelay(attempt, by, ids) / 1000);
  assert.deepEqual(delays("silence"), [0, 5, 20, 80, 300, 300, 300]);
  assert.deepEqual(delays("worker"), [1, 5, 20, 80, 300, 300, 300]);
  assert.equal(retryDelay(2, "worker", { ...ids, random: () => 0 }), 2500);
});

Deno.test("a job whose workers fall silent one after another is dead after its attempts", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit({ maxAttempts: 2 });
  await (await rig.joined("a")).take();
  await rig.clock.advance(300_000);
  await (await rig.joined("b")).take();
  await rig.clock.advance(300_000);
  const shown = await rig.engine.showJob(job);
  assert.equal(shown.state, "dead");
  assert.match(shown.reason ?? "", /worker b was silent for 300 seconds/);
  assert.deepEqual((await rig.notes()).map(({ what }) => what), ["lost", "dead"]);
});
