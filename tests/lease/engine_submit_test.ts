import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { Rig } from "./engine_kit.ts";

Deno.test("a job of a kind and key that is open already is that job", async () => {
  await using rig = await Rig.make();
  const first = await rig.submit({ key: "same" });
  assert.deepEqual(await rig.submit({ key: "same" }), { ...first, created: false });
  const worker = await rig.joined("w");
  await worker.report(await worker.take());
  assert.equal(await worker.acquire(), "nothing");
  const next = await rig.submit({ key: "same" });
  assert.ok(next.created && next.job > first.job && next.lease > first.lease);
});

Deno.test("a job of a transaction that is undone never was", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  const submission = {
    kind: "fake",
    key: "k",
    jobCid: cidOf(new Uint8Array()),
    requires: {},
    campaign: null,
    repo: null,
  };
  await assert.rejects(
    rig.db.write(async (tx) => {
      await rig.engine.submit(tx, submission);
      throw new Error("undone");
    }),
    /undone/,
  );
  assert.equal(await worker.acquire(), "nothing");
  assert.equal((await rig.engine.status()).jobs.queued, 0);
  assert.deepEqual(await rig.engine.listJobs(), []);
});

Deno.test("a submission beyond its bounds is refused", async () => {
  await using rig = await Rig.make();
  const bad = [
    { kind: "nobody" },
    { maxAttempts: 0 },
    { maxAttempts: 1.5 },
    { priority: Number.NaN },
    { requires: { labels: Array.from({ length: 65 }, (_, n) => `l${n}`) } },
    { requires: { runner: "r".repeat(201) } },
  ];
  for (const job of bad) await assert.rejects(rig.submit(job), { code: "invalid_request" });
});

Deno.test("cancelling a queued job ends it at once, and its kind is told in the same transaction", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  assert.equal(await rig.engine.cancelJob(job, "not needed"), "cancelled");
  assert.equal(await rig.engine.cancelJob(job, "not needed"), "ended");
  assert.equal(await worker.acquire(), "nothing");
  const shown = await rig.engine.showJob(job);
  assert.equal(shown.state, "cancelled");
  assert.equal(shown.reason, "not needed");
  assert.deepEqual((await rig.notes()).map(({ what, detail }) => [what, detail]), [
    ["cancelled", "not needed"],
  ]);
  assert.equal((await rig.engine.status()).jobs.queued, 0);
});

Deno.test("cancelling a job that waits for its next attempt ends it, and it does not come back", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  await worker.lost(await worker.take());
  assert.equal((await rig.engine.status()).jobs.delayed, 1);
  await rig.engine.cancelJob(job, "no");
  await rig.clock.advance(5000);
  assert.equal(await worker.acquire(), "nothing");
  const { queued, delayed } = (await rig.engine.status()).jobs;
  assert.deepEqual({ queued, delayed }, { queued: 0, delayed: 0 });
});

Deno.test("cancelling a running job tells its worker, which still reports, and the job ends cancelled", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  assert.equal(await rig.engine.cancelJob(job, "a mistake"), "revoked");
  assert.equal(await rig.engine.cancelJob(job, "again"), "revoked");
  assert.deepEqual(await worker.messages(), [{ kind: "revoke", id: 1, lease }]);
  assert.equal((await worker.heartbeat(lease)).get(lease), "revoked");
  await worker.report(lease);
  const shown = await rig.engine.showJob(job);
  assert.equal(shown.state, "cancelled");
  assert.equal(shown.reason, "a mistake");
  assert.deepEqual((await rig.notes()).map(({ what }) => what), ["revoked"]);
});

Deno.test("a cancelled job that is lost ends cancelled and is never queued again", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const silent = await rig.submit();
  const worker = await rig.joined("w");
  const [lease] = [await worker.take(), await worker.take()];
  await rig.engine.cancelJob(job, "no");
  await rig.engine.cancelJob(silent.job, "nor this");
  await worker.lost(lease);
  await rig.clock.advance(301_000);
  for (const id of [job, silent.job]) {
    assert.equal((await rig.engine.showJob(id)).state, "cancelled");
  }
  assert.deepEqual((await rig.notes()).map(({ what }) => what), ["cancelled", "cancelled"]);
  assert.equal(await worker.acquire(), "nothing");
});

Deno.test("lists are newest first, filtered, and bounded", async () => {
  await using rig = await Rig.make();
  for (let n = 0; n < 5; n++) await rig.submit({ campaign: n % 2 });
  await rig.engine.cancelJob(3, "no");
  const ids = async (filter: Parameters<typeof rig.engine.listJobs>[0]) =>
    (await rig.engine.listJobs(filter)).map(({ job }) => job);
  assert.deepEqual(await ids({}), [5, 4, 3, 2, 1]);
  assert.deepEqual(await ids({ limit: 2 }), [5, 4]);
  assert.deepEqual(await ids({ before: 3, limit: 1 }), [2]);
  assert.deepEqual(await ids({ state: "cancelled" }), [3]);
  assert.deepEqual(await ids({ state: "open", campaign: 0 }), [5, 1]);
  assert.deepEqual(await ids({ kind: "nobody" }), []);
});

Deno.test("a job waits for slots that its pool does not have, and nobody had it when it is cancelled", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 0 } } });
  await rig.joined("idle");
  const { job } = await rig.submit();
  const { waits } = await rig.engine.showJob(job);
  assert.match(waits ?? "", /1 in a pool without slots for evaluations$/);
  await rig.engine.cancelJob(job, "no more");
  assert.equal((await rig.engine.showJob(job)).attempts, 0);
});

Deno.test("a job says why it waits", async () => {
  await using rig = await Rig.make({ pools: { lab: { evaluations: 1 }, gpu: {} } });
  const why = async (job: number) => (await rig.engine.showJob(job)).waits;
  const { job } = await rig.submit();
  assert.match(await why(job) ?? "", /no worker has registered/);
  const worker = await rig.joined("w");
  assert.match(await why(job) ?? "", /next for a worker/);
  await worker.take();
  assert.equal(await why(job), null);
  const second = await rig.submit();
  assert.match(await why(second.job) ?? "", /1 full/);
  const third = await rig.submit({ requires: { pool: "gpu" } });
  assert.match(await why(third.job) ?? "", /no worker fits: 1 lacks pool gpu/);
  await rig.engine.drain("w");
  assert.match(await why(second.job) ?? "", /1 draining/);
  await rig.clock.advance(60_000);
  assert.match(await why(second.job) ?? "", /1 unreachable/);
  assert.match((await rig.engine.status()).jobs.waits ?? "", /unreachable|no worker fits/);
});

Deno.test("whoever waits for a job wakes at its change, and at no other job's", async () => {
  await using rig = await Rig.make();
  const a = await rig.submit();
  const b = await rig.submit();
  const woken: string[] = [];
  const first = rig.engine.changed(a.job, 1000).then(() => woken.push("a"));
  const stop = new AbortController();
  const second = rig.engine.changed(b.job, 1000, stop.signal).then(() => woken.push("b"));
  const worker = await rig.joined("w");
  await worker.take();
  await first;
  await worker.heartbeat();
  assert.deepEqual(woken, ["a"]);
  stop.abort();
  await second;
  const third = rig.engine.changed(b.job, 5);
  await rig.clock.advance(5000);
  await third;
  const fourth = rig.engine.changed(b.job, 1000);
  await rig.engine.close();
  await fourth;
});
