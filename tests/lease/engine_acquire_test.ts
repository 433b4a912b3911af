import assert from "node:assert/strict";
import type { Grant } from "../../lib/lease/mod.ts";
import { HEAD } from "../../lib/lease/acquire.ts";
import { FakeKind, Rig, SAMPLE } from "./engine_kit.ts";

function leaseOf(answer: unknown): number {
  assert.equal(typeof answer, "object", `a lease, not ${answer}`);
  return (answer as Grant).lease;
}

Deno.test("acquire grants the oldest job, with its address and without a handle", async () => {
  await using rig = await Rig.make();
  const { lease } = await rig.submit();
  await rig.submit();
  const worker = await rig.joined("w");
  const grant = await worker.acquire() as Grant;
  assert.equal(grant.lease, lease);
  assert.match(grant.job_cid, /^bafkr4i/);
  assert.equal(grant.handle, null);
  assert.equal(grant.started_at, null);
});

Deno.test("acquire sent again with its request id gets the same lease, with full slots, drained, and after its end", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 1 } } });
  await rig.submit();
  await rig.submit();
  const worker = await rig.joined("w");
  const first = leaseOf(await worker.acquire("r1"));
  assert.equal(await worker.acquire("r2"), "slots");
  assert.equal(leaseOf(await worker.acquire("r1")), first);
  await rig.engine.drain("w");
  assert.equal(leaseOf(await worker.acquire("r1")), first);
  await worker.report(first);
  assert.equal(leaseOf(await worker.acquire("r1")), first);
  const other = await rig.joined("v");
  await assert.rejects(other.acquire("r1"), { code: "invalid_request" });
});

Deno.test("acquire of many workers at once never grants a lease twice, nor beyond the slots", async () => {
  await using rig = await Rig.make();
  for (let n = 0; n < 25; n++) await rig.submit();
  const workers = await Promise.all(
    Array.from({ length: 10 }, (_, n) => rig.joined(`w${n}`)),
  );
  const answers = await Promise.all(
    workers.flatMap((w) => [w.acquire(), w.acquire(), w.acquire()]),
  );
  const leases = answers.filter((answer) => typeof answer === "object").map(leaseOf);
  assert.equal(leases.length, 20);
  assert.equal(new Set(leases).size, 20);
  assert.equal(answers.filter((answer) => answer === "slots").length, 10);
});

Deno.test("acquire says nothing when slots are full but nothing waits for them", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 1 } } });
  await rig.submit();
  const worker = await rig.joined("w");
  await worker.take();
  assert.equal(await worker.acquire(), "nothing");
  await rig.submit({ requires: { runner: "other" } });
  assert.equal(await worker.acquire(), "nothing");
  await rig.submit();
  assert.equal(await worker.acquire(), "slots");
});

Deno.test("acquire refuses with the first reason of draining, memory, load, slots, nothing", async () => {
  await using rig = await Rig.make({
    pools: { lab: { evaluations: 1, min_memory_gb: 8, max_load: 1.5 } },
  });
  const worker = await rig.joined("w");
  const short = { ...SAMPLE, memory_available: 7.9e9 };
  const loaded = { ...SAMPLE, load1: 6.1 };
  worker.sample = short;
  assert.equal(await worker.acquire(), "memory", "with nothing queued as well");
  await rig.submit();
  await rig.submit();
  assert.equal(await worker.acquire(), "memory");
  worker.sample = loaded;
  assert.equal(await worker.acquire(), "load");
  worker.sample = { ...short, ...loaded, memory_available: 7.9e9 };
  assert.equal(await worker.acquire(), "memory");
  worker.sample = { ...SAMPLE, load1: 6 };
  await worker.take();
  assert.equal(await worker.acquire(), "slots");
  worker.sample = loaded;
  assert.equal(await worker.acquire(), "load");
  await rig.engine.drain("w");
  assert.equal(await worker.acquire(), "draining");
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, "draining");
});

Deno.test("acquire looks at agents before evaluations, each with slots of its own", async () => {
  const kinds = [new FakeKind(), new FakeKind("session", "agents")];
  await using rig = await Rig.make({ kinds, pools: { lab: { agents: 1, evaluations: 1 } } });
  await rig.submit();
  const agent = await rig.submit({ kind: "session" });
  await rig.submit({ kind: "session" });
  const worker = await rig.joined("w");
  assert.equal(await worker.take(), agent.lease);
  assert.notEqual(await worker.take(), agent.lease);
  assert.equal(await worker.acquire(), "slots");
});

Deno.test("a pool without bounds takes all it asks for", async () => {
  await using rig = await Rig.make({ pools: { lab: {} } });
  for (let n = 0; n < 30; n++) await rig.submit();
  const worker = await rig.joined("w");
  for (let n = 0; n < 30; n++) await worker.take();
  assert.equal(await worker.acquire(), "nothing");
});

Deno.test("a job goes only to a worker with its pool, runner and every label", async () => {
  await using rig = await Rig.make({ pools: { lab: {}, gpu: {} } });
  const { lease } = await rig.submit({
    requires: { pool: "gpu", runner: "docker", labels: ["big", "fast"] },
  });
  const all = { pool: "gpu", runners: ["process", "docker"], labels: ["fast", "big", "more"] };
  const lacking = [
    await rig.joined("a", { ...all, pool: "lab" }),
    await rig.joined("b", { ...all, runners: ["process"] }),
    await rig.joined("c", { ...all, labels: ["fast"] }),
  ];
  for (const worker of lacking) assert.equal(await worker.acquire(), "nothing");
  assert.equal(await (await rig.joined("d", all)).take(), lease);
});

Deno.test("a job whose kind the server does not know waits, and is there when it knows it again", async () => {
  await using rig = await Rig.make({ kinds: [new FakeKind(), new FakeKind("later")] });
  const { job, lease } = await rig.submit({ kind: "later" });
  const worker = await rig.joined("w");
  const kinds = rig.kinds;
  rig.kinds = [new FakeKind()];
  await rig.restart();
  assert.equal(await worker.acquire(), "nothing");
  assert.match((await rig.engine.showJob(job)).waits ?? "", /knows no kind of job later/);
  await assert.rejects(rig.submit({ kind: "later" }), { code: "invalid_request" });
  rig.kinds = kinds;
  await rig.restart();
  assert.equal(await worker.take(), lease);
});

Deno.test("a higher priority goes first, then the lower id", async () => {
  await using rig = await Rig.make({ pools: { lab: {} } });
  const low = await rig.submit({ priority: -1 });
  const first = await rig.submit();
  const second = await rig.submit({ requires: { runner: "process" } });
  const high = await rig.submit({ priority: 7, requires: { runner: "process" } });
  const worker = await rig.joined("w");
  const order = [
    await worker.take(),
    await worker.take(),
    await worker.take(),
    await worker.take(),
  ];
  assert.deepEqual(order, [high, first, second, low].map(({ lease }) => lease));
});

Deno.test("the campaign with the fewest live leases goes first, also among acquires of one moment", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 1 } } });
  const campaignOf = new Map<number, number>();
  for (const [campaign, count] of [[1, 20], [2, 4], [3, 4]] as const) {
    for (let n = 0; n < count; n++) {
      campaignOf.set(
        (await rig.submit({ campaign, priority: campaign === 1 ? 9 : 0 })).lease,
        campaign,
      );
    }
  }
  const workers = await Promise.all(Array.from({ length: 12 }, (_, n) => rig.joined(`w${n}`)));
  const leases = await Promise.all(workers.map((worker) => worker.take()));
  const taken = leases.map((lease) => campaignOf.get(lease));
  assert.deepEqual(taken.filter((campaign) => campaign === 1).length, 4);
  assert.deepEqual(taken.filter((campaign) => campaign === 2).length, 4);
  assert.deepEqual(taken.filter((campaign) => campaign === 3).length, 4);
});

Deno.test("a worker for one lease is granted exactly one, whatever it asks at once", async () => {
  await using rig = await Rig.make({ pools: { lab: {} } });
  await rig.submit();
  await rig.submit();
  const worker = await rig.joined("w", { once: true });
  const answers = await Promise.all([
    worker.acquire("a"),
    worker.acquire("b"),
    worker.acquire("c"),
  ]);
  assert.equal(answers.filter((answer) => typeof answer === "object").length, 1);
  assert.equal(answers.filter((answer) => answer === "draining").length, 2);
  await worker.register({ once: true });
  assert.equal(await worker.acquire(), "draining", "registering again earns no second one");
  await worker.report(leaseOf(answers[0]));
  assert.equal(await worker.acquire(), "draining");
  await rig.restart();
  assert.equal(await worker.acquire(), "draining", "nor does a restart of the server");
});

Deno.test("a worker whose pool is gone from the config drains, and may report", async () => {
  await using rig = await Rig.make({ pools: { lab: {}, old: {} } });
  await rig.submit();
  const worker = await rig.joined("w", { pool: "old" });
  const lease = await worker.take();
  rig.engine.setPools({ lab: {} });
  assert.equal(await worker.acquire(), "draining");
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  assert.deepEqual(await worker.report(lease), { reported: "fake" });
});

Deno.test("pause keeps a worker from new leases until resume, and it hears of nothing", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  await rig.engine.pause("w", "kernel update");
  await rig.engine.pause("w");
  assert.equal(await worker.acquire(), "nothing");
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, "paused");
  await rig.engine.resume("w");
  await worker.take();
});

Deno.test("a worker that asks for nothing since its disk is full is shown so, and in why a job waits", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  worker.sample = { ...SAMPLE, disk_free: 64 * 2 ** 20 - 1 };
  await worker.heartbeat();
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, "disk");
  assert.match((await rig.engine.showJob(job)).waits ?? "", /1 out of disk/);
  worker.sample = { ...SAMPLE, disk_free: 64 * 2 ** 20 };
  await worker.heartbeat();
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, null);
});

Deno.test("acquire looks at the queue through an index, in order", async () => {
  await using rig = await Rig.make();
  const plan = await rig.db.write((tx) =>
    tx.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${HEAD}`, ["", 0])
  );
  const details = plan.map(({ detail }) => detail).join("\n");
  assert.match(details, /leases_ready/);
  assert.doesNotMatch(details, /SCAN|TEMP B-TREE/);
});

Deno.test("leases that are granted beside a report that must be undone are granted once, and counted once", async () => {
  let applied = 0;
  const kind = new FakeKind();
  kind.fail = (what) => {
    if (what !== "applied") return;
    applied++;
    throw new Error("its kind cannot take it");
  };
  await using rig = await Rig.make({ kinds: [kind] });
  for (let n = 0; n < 3; n++) await rig.submit();
  const [u, v, w] = await Promise.all([rig.joined("u"), rig.joined("v"), rig.joined("w")]);
  const held = await w.take();
  const [first, report, second] = await Promise.allSettled([u.take(), w.report(held), v.take()]);
  assert.equal(report.status, "rejected");
  assert.equal(applied, 2, "it ran with the others, and then again by itself");
  assert.ok(first.status === "fulfilled" && second.status === "fulfilled");
  assert.equal(new Set([held, first.value, second.value]).size, 3);
  assert.equal(await u.acquire(), "nothing");
  // The memory of the queue follows the database: not one too many, nor too few.
  await rig.submit();
  await v.take();
  assert.equal(await w.acquire(), "nothing");
  kind.fail = null;
  await w.report(held);
  assert.deepEqual(
    (await rig.notes()).filter(({ what }) => what === "applied").map(({ lease }) => lease),
    [held],
  );
});
