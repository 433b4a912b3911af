import assert from "node:assert/strict";
import { Rig, settle } from "./engine_kit.ts";

Deno.test("a second process of a name that is heard is refused, and takes nothing from the first", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const first = await rig.joined("w");
  const lease = await first.take();
  const second = rig.worker("w", { incarnation: "w-2" });
  await assert.rejects(second.register(), {
    code: "superseded",
    message: /another process already works as w/,
  });
  await assert.rejects(second.acquire(), { code: "unknown_worker" });
  await assert.rejects(second.heartbeat(lease), { code: "unknown_worker" });
  await assert.rejects(second.report(lease), { code: "stale_lease" });
  assert.equal((await first.heartbeat(lease)).get(lease), "renewed");
  await first.report(lease);
});

Deno.test("a process that names its dead predecessor takes its leases over at once, and the predecessor hears so", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const first = await rig.joined("w");
  const lease = await first.take();
  const poll = first.messages(0, 25);
  const second = rig.worker("w", { incarnation: "w-2", succeeds: "w-1" });
  const { held } = await second.register();
  assert.deepEqual(held.map((grant) => grant.lease), [lease]);
  assert.deepEqual(await poll, [], "its long-poll ends");
  for (
    const call of [
      first.acquire(),
      first.heartbeat(lease),
      first.messages(0, 0),
      first.started(lease),
    ]
  ) {
    await assert.rejects(call, { code: "superseded" });
  }
  await assert.rejects(first.register(), { code: "superseded" });
  await assert.rejects(first.report(lease), { code: "stale_lease" });
  assert.equal((await second.heartbeat(lease)).get(lease), "renewed");
  await second.report(lease, undefined, "by the second");
});

Deno.test("a new process of a name that was silent for the grace gets the name but not the leases, which run out", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const first = await rig.joined("w");
  const lease = await first.take();
  await rig.clock.advance(50_000);
  const second = rig.worker("w", { incarnation: "w-2" });
  assert.deepEqual((await second.register()).held, []);
  assert.equal((await second.heartbeat(lease)).get(lease), "stale");
  await second.live(240);
  assert.equal((await rig.engine.showJob(job)).lease, lease);
  await second.live(20);
  assert.ok((await rig.engine.showJob(job)).lease > lease);
});

Deno.test("a process that lost its name may still hand in the report of a lease that it holds", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const first = await rig.joined("w");
  const lease = await first.take();
  await rig.clock.advance(50_000);
  const second = rig.worker("w", { incarnation: "w-2" });
  await second.register();
  assert.deepEqual(await first.report(lease), { reported: "fake" });
  await assert.rejects(first.heartbeat(), { code: "superseded" });
});

Deno.test("right after a start nobody takes the name of a process that may live, and is asked to try again", async () => {
  await using rig = await Rig.make();
  const first = await rig.joined("w");
  await rig.restart();
  const second = rig.worker("w", { incarnation: "w-2" });
  await assert.rejects(second.register(), { code: "unavailable", message: /ask again/ });
  await first.heartbeat();
  await assert.rejects(second.register(), { code: "superseded" });
  await rig.restart();
  await rig.clock.advance(50_000);
  await second.register();
  await assert.rejects(first.heartbeat(), { code: "superseded" });
});

Deno.test("a process that does not say which it is may register again and again, beside none that does", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const plain = rig.worker("w", { incarnation: null });
  await plain.register();
  const lease = await plain.take();
  const { held } = await plain.register();
  assert.deepEqual(held.map((grant) => grant.lease), [lease]);
  await assert.rejects(rig.worker("w").register(), { code: "superseded" });
  await rig.clock.advance(50_000);
  await rig.worker("w").register();
  await assert.rejects(plain.heartbeat(), { code: "superseded" });
});

Deno.test("a worker whose row is gone registers again; one that cannot say who it is gets its row back", async () => {
  await using rig = await Rig.make();
  const ours = await rig.joined("ours");
  const theirs = rig.worker("theirs", { incarnation: null });
  await theirs.register();
  await rig.db.write((tx) => tx.run("DELETE FROM lease_workers"));
  await rig.restart();
  await assert.rejects(ours.heartbeat(), { code: "unknown_worker" });
  await ours.register();
  await ours.heartbeat();
  await rig.submit({ requires: { runner: "process" } });
  await theirs.take();
});

Deno.test("a worker whose row is gone and whose pool nobody knows must register", async () => {
  await using rig = await Rig.make({ pools: { lab: {}, gpu: {} } });
  await assert.rejects(rig.worker("w", { incarnation: null }).heartbeat(), {
    code: "unknown_worker",
  });
  await rig.worker("v", { incarnation: null, pool: "gpu" }).heartbeat();
  assert.equal(rig.engine.listWorkers()[0]?.pool, "gpu");
});

Deno.test("a worker that is restored from before its process registers again and works on", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  await rig.joined("w");
  const backup = await rig.db.read((tx) => tx.all("SELECT * FROM lease_workers"));
  const second = rig.worker("w", { incarnation: "w-2", succeeds: "w-1" });
  await second.register();
  await rig.db.write(async (tx) => {
    await tx.run("UPDATE lease_workers SET incarnation = ?, former = ?", [
      backup[0]?.incarnation ?? null,
      backup[0]?.former ?? null,
    ]);
  });
  await rig.restart();
  await assert.rejects(second.heartbeat(), { code: "unknown_worker" });
  await second.register();
  await second.take();
});

Deno.test("a token of one pool registers in that pool alone", async () => {
  await using rig = await Rig.make({ pools: { lab: {}, gpu: {} } });
  const worker = rig.worker("w", { pool: "gpu" });
  await assert.rejects(worker.register(), { code: "permission_denied", message: /--pool gpu/ });
  await worker.register({ pool: "gpu" });
  const other = rig.worker("w", { pool: "lab" });
  await assert.rejects(other.acquire(), { code: "permission_denied" });
});

Deno.test("register refuses another CAS before an unknown pool, and names the pools", async () => {
  await using rig = await Rig.make({ pools: { zoo: {}, lab: {} } });
  const worker = rig.worker("w");
  const cas = await Rig.make();
  await using _ = cas;
  const stranger = cas.worker("w");
  const probe = await cas.cas.put(new TextEncoder().encode("only there"));
  await assert.rejects(
    rig.engine.register(stranger.caller, {
      version: "1",
      pool: "none",
      runners: [],
      labels: [],
      sample: worker.sample,
      casProbe: probe,
      once: false,
    }),
    { code: "other_cas", message: new RegExp(probe) },
  );
  await assert.rejects(worker.register({ pool: "none" }), {
    code: "dismissed",
    message: /the pools are lab, zoo/,
  });
});

Deno.test("a worker is removed once it is silent and holds nothing", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  await assert.rejects(rig.engine.removeWorker("w"), { code: "conflict", message: /still calls/ });
  const lease = await worker.take();
  await assert.rejects(rig.engine.removeWorker("w"), {
    code: "conflict",
    message: /holds 1 leases/,
  });
  await worker.report(lease);
  await rig.clock.advance(60_000);
  await rig.engine.removeWorker("w");
  assert.deepEqual(rig.engine.listWorkers(), []);
  await assert.rejects(rig.engine.removeWorker("w"), { code: "not_found" });
  await assert.rejects(worker.heartbeat(), { code: "unknown_worker" });
});

Deno.test("a process that says that it ended is gone, gets nothing more, and its name is free at once", async () => {
  await using rig = await Rig.make();
  const first = await rig.joined("w");
  const poll = first.messages(0, 25);
  await settle();
  await rig.engine.leave(first.caller);
  await rig.engine.leave(first.caller);
  assert.deepEqual(await poll, []);
  const [shown] = rig.engine.listWorkers();
  assert.deepEqual([shown?.no_lease, shown?.reachable], ["gone", false]);
  const { job } = await rig.submit();
  assert.equal(await first.acquire(), "draining", "a call of it that was still on its way");
  await first.heartbeat();
  assert.match((await rig.engine.showJob(job)).waits ?? "", /1 gone/);
  const second = rig.worker("w", { incarnation: "w-2" });
  await second.register();
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, null);
  await assert.rejects(rig.engine.leave(first.caller), { code: "superseded" });
  await second.take();
  await rig.engine.leave(second.caller);
  const left = rig.events.filter(({ event }) => event === "worker.left");
  assert.equal(left.length, 2);
});

Deno.test("a worker that left because it was drained is drained, until it is resumed", async () => {
  await using rig = await Rig.make();
  const first = await rig.joined("w");
  await rig.engine.drain("w");
  await rig.engine.leave(first.caller);
  const { job } = await rig.submit();
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, "drained");
  assert.match((await rig.engine.showJob(job)).waits ?? "", /1 drained$/);
  await rig.engine.resume("w");
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, "gone");
});

Deno.test("a process that ended is gone after a restart of the server too, and its name free at once", async () => {
  await using rig = await Rig.make();
  const first = await rig.joined("w");
  await rig.engine.leave(first.caller);
  await rig.restart(false);
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, "gone");
  await rig.submit();
  assert.equal(await first.acquire(), "draining");
  const second = rig.worker("w", { incarnation: "w-2" });
  await second.register();
  await second.take();
  await rig.restart(false);
  assert.equal(rig.engine.listWorkers()[0]?.no_lease, null);
});

Deno.test("what a process left held goes to its successor on its home, and to nobody else before it expires", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const first = await rig.joined("w");
  const lease = await first.take();
  await rig.engine.leave(first.caller);
  const stranger = rig.worker("w", { incarnation: "w-2" });
  assert.deepEqual((await stranger.register()).held, []);
  assert.equal((await rig.engine.showJob(job)).lease, lease);
  await rig.engine.leave(stranger.caller);
  await rig.clock.advance(301_000);
  assert.ok((await rig.engine.showJob(job)).lease > lease);

  await using other = await Rig.make();
  await other.submit();
  const before = await other.joined("w");
  const held = await before.take();
  await other.engine.leave(before.caller);
  const next = other.worker("w", { incarnation: "w-2", succeeds: "w-1" });
  assert.deepEqual((await next.register()).held.map((grant) => grant.lease), [held]);
});

Deno.test("a process whose name is taken is told for how long, unless the other one is heard again", async () => {
  await using rig = await Rig.make();
  const first = await rig.joined("w");
  const second = rig.worker("w", { incarnation: "w-2" });
  const told = async () => {
    const error = await second.register().then(() => null, (error) => error);
    return error?.seconds;
  };
  assert.equal(await told(), 50);
  await rig.clock.advance(20_000);
  assert.equal(await told(), 30);
  await first.heartbeat();
  assert.equal(await told(), 50);
  await rig.clock.advance(50_000);
  await second.register();
  await assert.rejects(first.register(), (error) => {
    assert.equal((error as { seconds?: unknown }).seconds, null);
    return true;
  });
});
