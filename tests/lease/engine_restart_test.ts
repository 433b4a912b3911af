import assert from "node:assert/strict";
import { TempDir } from "../kit/mod.ts";
import { Rig } from "./engine_kit.ts";

Deno.test("a server that starts again on its file has every job, lease, worker, message and delay", async () => {
  await using dir = await TempDir.make();
  const path = dir.join("db.sqlite");
  const before = await fill(path);
  await using rig = await Rig.make({ path });
  const { status, workers, job } = await describe(rig);
  assert.deepEqual(status, before.status);
  assert.deepEqual(workers, before.workers);
  assert.deepEqual(job, before.job);
  const worker = rig.worker("w");
  assert.deepEqual([...await worker.heartbeat(1, 2)], [[1, "revoked"], [2, "renewed"]]);
  assert.deepEqual(await worker.messages(0, 1), [{ kind: "revoke", id: 1, lease: 1 }]);
  await worker.report(2);
  await rig.clock.advance(1000);
  const leases = [await worker.take(), await rig.joined("v").then((v) => v.take())];
  assert.deepEqual(leases.sort(), [4, 5], "the delayed one became takeable, beside the queued one");
});

async function fill(path: string) {
  await using rig = await Rig.make({ path });
  const jobs = [await rig.submit(), await rig.submit(), await rig.submit(), await rig.submit()];
  const worker = await rig.joined("w");
  const [first, second] = [await worker.take(), await worker.take()];
  await worker.started(second);
  await rig.engine.cancelJob(jobs[0]?.job ?? 0, "a mistake");
  const other = await rig.joined("v");
  await other.lost(await other.take());
  assert.deepEqual([first, second], [1, 2]);
  return await describe(rig);
}

async function describe(rig: Rig) {
  const { jobs } = await rig.engine.status();
  const { waits: _, ...status } = jobs;
  const workers = rig.engine.listWorkers().map(({ worker, leases, no_lease }) => ({
    worker,
    leases,
    no_lease,
  }));
  const { waits: __, ...job } = await rig.engine.showJob(2);
  return { status, workers, job: { ...job, leases: job.leases.map(({ state }) => state) } };
}

Deno.test("after a start every live lease has a full toleration, however long the server was gone", async () => {
  await using rig = await Rig.make();
  const { job, lease } = await rig.submit();
  const worker = await rig.joined("w");
  await worker.take();
  await rig.clock.advance(290_000);
  await rig.engine.close();
  rig.clock.lapse(86_400_000);
  await rig.restart(false);
  await rig.clock.advance(299_999);
  assert.equal((await rig.engine.showJob(job)).lease, lease);
  await rig.clock.advance(1);
  assert.ok((await rig.engine.showJob(job)).lease > lease);
});

Deno.test("ids of leases, jobs and messages grow for ever, whatever is deleted", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  const { job } = await rig.submit();
  const lease = await worker.take();
  await rig.engine.cancelJob(job, "no");
  const [message] = await worker.messages();
  await worker.report(lease);
  await rig.db.write(async (tx) => {
    for (const table of ["leases", "jobs", "lease_events"]) {
      await tx.run(`DELETE FROM ${table}`);
    }
  });
  await rig.restart();
  const next = await rig.submit();
  assert.ok(next.job > job && next.lease > lease);
  await worker.take();
  await rig.engine.cancelJob(next.job, "no");
  const [after] = await worker.messages(message?.id ?? 0, 1);
  assert.ok((after?.id ?? 0) > (message?.id ?? Infinity));
});

Deno.test("ids of leases grow over starts and restores", async () => {
  await using rig = await Rig.make();
  rig.clock.jumpWall(100_000_000_000);
  const given: number[] = [];
  const next = async () => {
    const { job, lease } = await rig.submit();
    given.push(lease);
    await rig.engine.cancelJob(job, "no");
  };
  const forget = (after: number) =>
    rig.db.write((tx) => tx.run("DELETE FROM leases WHERE id > ?", [after]));
  await next();
  for (let start = 0; start < 20; start++) {
    // A backup of the first moment, with nothing of what came since.
    if (start % 3 === 2) await forget(given[0] ?? 0);
    await rig.restart(false);
    await rig.clock.advance(50);
    for (let more = 0; more < 3; more++) await next();
  }
  assert.deepEqual(given, [...new Set(given)].sort((a, b) => a - b));
  assert.ok((given.at(-1) ?? Infinity) < Number.MAX_SAFE_INTEGER / 100);
  // Nor do they come back when the clock was set back.
  rig.clock.jumpWall(-86_400_000);
  await rig.restart(false);
  await next();
  assert.ok((given.at(-1) ?? 0) > (given.at(-2) ?? Infinity));
});

Deno.test("two engines on one database, the older not closed: what the older answers is still fenced", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  const older = rig.engine;
  await rig.restart(false);
  await worker.report(lease);
  assert.deepEqual([
    ...await older.heartbeat(worker.caller, new Map([[lease, null]]), worker.sample),
  ], [
    [lease, "stale"],
  ]);
  await older.close();
  assert.equal((await rig.notes()).length, 1);
});

Deno.test("an engine refuses calls before its start and after its close, and a second start", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  await assert.rejects(rig.engine.start(), { code: "internal" });
  await rig.engine.close();
  await rig.engine.close();
  await assert.rejects(worker.heartbeat(), { code: "unavailable", message: /ask again/ });
  await assert.rejects(worker.report(1), { code: "unavailable" });
});

Deno.test("timing that would let a job run twice is refused", async () => {
  const { LeaseEngine } = await import("../../lib/lease/mod.ts");
  await using rig = await Rig.make();
  for (
    const timing of [
      { renew: 10, grace: 50, toleration: 70 },
      { renew: 50, grace: 50, toleration: 300 },
      { renew: 0, grace: 50, toleration: 300 },
      { renew: Number.NaN, grace: 50, toleration: 300 },
    ]
  ) {
    const { db, cas, clock, ids, kinds } = rig;
    const log = { event() {} };
    assert.throws(() => new LeaseEngine({ db, cas, clock, ids, log, kinds, timing, pools: {} }), {
      code: "config",
    });
  }
});

Deno.test("a worker that was told longer times keeps its lease by them until it registers again", async () => {
  await using rig = await Rig.make();
  const { job, lease } = await rig.submit();
  const worker = await rig.joined("w");
  await worker.take();
  rig.timing = { renew: 2, grace: 6, toleration: 12 };
  await rig.restart();
  const reachable = () => rig.engine.listWorkers().map(({ reachable }) => reachable);
  assert.deepEqual([...await worker.heartbeat(lease)], [[lease, "renewed"]]);
  await rig.clock.advance(10_000);
  assert.deepEqual(reachable(), [true], "it calls every 10 s, as it was told");
  await rig.clock.advance(289_999);
  assert.equal((await rig.engine.showJob(job)).lease, lease, "it stops its job by 300 s");
  await rig.clock.advance(1);
  const next = (await rig.engine.showJob(job)).lease;
  assert.ok(next > lease);
  const again = await rig.joined("w");
  assert.equal(await again.take(), next);
  await rig.clock.advance(11_999);
  assert.equal((await rig.engine.showJob(job)).lease, next);
  await rig.clock.advance(1);
  assert.ok((await rig.engine.showJob(job)).lease > next, "now it knows the shorter times");
});
