/** @module A worker under a virtual clock: from a grant to its accepted report, and how a worker ends. */

import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import { settle } from "../kit/virtual_clock.ts";
import { Bench, hanging, reportOf, unreachable } from "./worker_kit.ts";

Deno.test("a worker registers with what it is, and a probe that is in its CAS", async () => {
  const bench = new Bench();
  const started = await bench.start({ labels: ["gpu"], once: false });
  const [info] = bench.server.of<{ casProbe: never; pool: string; runners: string[] }>("register");
  assert.ok(info);
  assert.equal(await bench.cas.has(info.casProbe), true);
  assert.equal(info.pool, "lab");
  assert.deepEqual(info.runners, ["process"]);
  await started.close(bench);
  assert.deepEqual(started.end, { how: "stopped" });
});

Deno.test("a worker runs several jobs at once, and reports each", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1), await bench.grant(2), await bench.grant(3));
  const started = await bench.start();
  assert.deepEqual(bench.runner.jobs.map((job) => job.lease), [1, 2, 3]);
  bench.runner.finish(2);
  await settle();
  assert.deepEqual(bench.server.of("report").map((args) => args["lease"]), [2]);
  assert.deepEqual(bench.runner.cleaned, [2]);
  assert.deepEqual(started.worker.leases, [1, 3]);
  await started.close(bench);
});

Deno.test("a freed slot is filled at once, with a request id of its own", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.server.queue.push(await bench.grant(2));
  bench.runner.finish(1);
  await settle();
  assert.equal(bench.runner.job(2).how, "run");
  const ids = bench.server.of("acquire").map((args) => args["requestId"]);
  assert.equal(new Set(ids).size, ids.length);
  await started.close(bench);
});

Deno.test("a report is in the spool before it is first sent, and gone once it is accepted", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  let spooled: unknown[] = [];
  bench.server.on["report"] = async () => {
    spooled = await bench.spool.load("desk");
  };
  bench.runner.finish(1);
  await settle();
  assert.equal(spooled.length, 1);
  assert.deepEqual(await bench.spool.load("desk"), []);
  await started.close(bench);
});

Deno.test("a runner that fails loses its job to the worker, with what it said", async () => {
  const bench = new Bench();
  bench.runner.run = () => Promise.reject(new Error("no such fault"));
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  assert.deepEqual(bench.server.of("lost"), [{ lease: 1, reason: "no such fault" }]);
  assert.deepEqual(started.worker.leases, []);
  await started.close(bench);
});

Deno.test("a job that the CAS lacks, or of a kind that nothing here runs, is lost", async () => {
  const bench = new Bench();
  const other = await bench.cas.put(new TextEncoder().encode(`{"kind":"agent"}`));
  const lacking = await bench.cas.put(new TextEncoder().encode("lacking"));
  const get = bench.cas.get.bind(bench.cas);
  bench.cas.get = (cid) => cid === lacking ? Promise.resolve(null) : get(cid);
  bench.server.queue.push(
    { ...await bench.grant(1), job_cid: other },
    { ...await bench.grant(2), job_cid: lacking },
  );
  const started = await bench.start();
  const reasons = bench.server.of("lost").map((args) => String(args["reason"]));
  assert.match(reasons[0] ?? "", /runs no job of kind "agent"/);
  assert.match(reasons[1] ?? "", /the CAS lacks the job/);
  await started.close(bench);
});

Deno.test("a CAS that is away for a while delays a job, and loses none", async () => {
  const bench = new Bench();
  const get = bench.cas.get.bind(bench.cas);
  let away = true;
  bench.cas.get = (cid) => away ? Promise.reject(unreachable()) : get(cid);
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  await bench.clock.advance(60_000);
  assert.deepEqual(bench.runner.jobs, []);
  away = false;
  await bench.clock.advance(5_000);
  assert.equal(bench.runner.job(1).how, "run");
  assert.deepEqual(bench.server.of("lost"), []);
  await started.close(bench);
});

Deno.test("a drain takes no more jobs, lets those that run report, and ends", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  started.worker.drain(null);
  bench.server.queue.push(await bench.grant(2));
  await bench.clock.advance(3_600_000);
  assert.equal(started.end, null);
  bench.runner.finish(1);
  await settle();
  assert.deepEqual(started.end, { how: "drained" });
  assert.deepEqual(bench.server.of("report").map((args) => args["lease"]), [1]);
  assert.equal(bench.server.queue.length, 1);
});

Deno.test("a drain with a deadline stops its jobs then, and they still report", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  started.worker.drain();
  await bench.clock.advance(29_999);
  assert.equal(bench.runner.job(1).control.stop.aborted, false);
  await bench.clock.advance(1);
  assert.deepEqual(bench.server.of("report").map((args) => args["report"]), [
    reportOf("stopped").report,
  ]);
  assert.deepEqual(started.end, { how: "stopped" });
});

Deno.test("a message or an answer that says so drains the worker without a deadline", async () => {
  for (const how of ["message", "answer"]) {
    const bench = new Bench();
    bench.server.queue.push(await bench.grant(1));
    const started = await bench.start();
    if (how === "message") bench.server.post({ kind: "drain", id: 1 });
    else bench.server.noLease = "draining";
    await bench.clock.advance(100_000);
    assert.equal(bench.runner.job(1).control.stop.aborted, false);
    bench.runner.finish(1);
    await settle();
    assert.deepEqual(started.end, { how: "drained" }, how);
    const [said] = bench.logged("worker.draining");
    assert.match(String(said?.["why"]), /the server lets this worker go: .*worker resume/, how);
  }
});

Deno.test("a stop ends its jobs at once, and what the server does not take stays in the spool", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.server.on["report"] = () => hanging();
  started.worker.stop();
  await bench.clock.advance(4_000);
  assert.equal(started.end, null);
  await bench.clock.advance(1_000);
  assert.deepEqual(started.end, { how: "stopped" });
  assert.equal((await bench.spool.load("desk")).length, 1);
  assert.deepEqual(bench.runner.cleaned, []);
});

Deno.test("a stop waits no longer for a server that refuses to take the last reports", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.server.on["report"] = () => Promise.reject(unreachable());
  started.worker.stop();
  await settle();
  assert.deepEqual(started.end, { how: "stopped" });
  assert.equal(bench.server.of("report").length, 1);
  assert.equal((await bench.spool.load("desk")).length, 1);
});

Deno.test("a lease that is granted twice runs once", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1), await bench.grant(1));
  const started = await bench.start();
  assert.equal(bench.runner.jobs.length, 1);
  await started.close(bench);
});

Deno.test("a worker of one lease asks for no second, and ends once the report is accepted", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1), await bench.grant(2));
  const started = await bench.start({ once: true });
  await bench.clock.advance(60_000);
  assert.equal(bench.server.of("acquire").length, 1);
  assert.equal(bench.server.of("register")[0]?.["once"], true);
  bench.server.on["report"] = () => Promise.reject(unreachable());
  bench.runner.finish(1);
  await bench.clock.advance(60_000);
  assert.equal(started.end, null);
  bench.server.on = {};
  await bench.clock.advance(5_000);
  assert.deepEqual(started.end, { how: "once" });
  assert.equal(bench.server.of("acquire").length, 1);
});

Deno.test("a restarted worker of one lease recovers that one and takes no other", async () => {
  const bench = new Bench();
  bench.server.held = [await bench.grant(1)];
  bench.server.queue.push(await bench.grant(2));
  const started = await bench.start({ once: true });
  assert.equal(bench.runner.job(1).how, "recover");
  bench.runner.finish(1);
  await settle();
  assert.deepEqual(started.end, { how: "once" });
  assert.deepEqual(bench.server.of("acquire"), []);
});

Deno.test("a lease whose answer arrives after a drain began is given back", async () => {
  const bench = new Bench();
  const grant = await bench.grant(1);
  let answer: (grant: unknown) => void = () => {};
  bench.server.on["acquire"] = () => new Promise((resolve) => answer = resolve);
  const started = await bench.start();
  started.worker.drain(null);
  await settle();
  assert.equal(started.end, null);
  answer(grant);
  await settle();
  assert.deepEqual(bench.server.of("lost").map((args) => args["lease"]), [1]);
  assert.deepEqual(bench.runner.jobs, []);
  assert.deepEqual(started.end, { how: "drained" });
});

Deno.test("an orphan leaves once no job runs, and keeps what it could not report", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start({ orphanExitSeconds: 60 });
  bench.server.down = true;
  await bench.clock.advance(120_000);
  assert.equal(started.end, null, "while a job runs it stays");
  bench.runner.finish(1);
  await settle();
  const tried = bench.server.of("report").length;
  assert.ok(tried >= 1);
  await bench.clock.advance(5_000);
  assert.deepEqual(started.end, { how: "orphaned" });
  assert.equal((await bench.spool.load("desk")).length, 1);
});

Deno.test("a worker whose server answers is no orphan, and one that never heard of it is", async () => {
  const bench = new Bench();
  const started = await bench.start({ orphanExitSeconds: 60 });
  await bench.clock.advance(600_000);
  assert.equal(started.end, null);
  await started.close(bench);

  const lone = new Bench();
  lone.server.down = true;
  const orphan = await lone.start({ orphanExitSeconds: 60 });
  await lone.clock.advance(59_000);
  assert.equal(orphan.end, null);
  await lone.clock.advance(1_000);
  assert.deepEqual(orphan.end, { how: "orphaned" });
});

Deno.test("between two heartbeats a worker is no orphan, however short its limit", async () => {
  const bench = new Bench();
  const started = await bench.start({ orphanExitSeconds: 1 });
  await bench.clock.advance(600_000);
  assert.equal(started.end, null);
  bench.server.down = true;
  await bench.clock.advance(600_000);
  assert.deepEqual(started.end, { how: "orphaned" });
});

for (
  const code of [
    "dismissed",
    "unauthenticated",
    "permission_denied",
    "reserved",
    "protocol",
    "other_cas",
    "superseded",
  ] as const
) {
  Deno.test(`${code} at any call stops the jobs, keeps their reports, and ends the worker`, async () => {
    const bench = new Bench();
    bench.server.queue.push(await bench.grant(1));
    const started = await bench.start();
    const refusal = new SubletError(code, "go away");
    bench.server.on["heartbeat"] = () => Promise.reject(refusal);
    await bench.clock.advance(10_000);
    assert.equal(bench.runner.job(1).control.stop.aborted, true);
    assert.deepEqual(started.end, { how: "refused", error: refusal });
    assert.equal((await bench.spool.load("desk")).length, 1);
    assert.deepEqual(bench.server.of("report"), []);
  });
}

Deno.test("a stop before the first registration ends the worker", async () => {
  const bench = new Bench();
  bench.server.on["register"] = () => hanging();
  const started = await bench.start();
  started.worker.stop();
  await settle();
  assert.deepEqual(started.end, { how: "stopped" });
  assert.equal(bench.clock.timers, 0);
});
