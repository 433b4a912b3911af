/** @module A worker under a virtual clock: its heartbeats, and what it does when nobody answers them. */

import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import { UnexplainedStatus } from "../../lib/lease/http_client_refusal.ts";
import { settle } from "../kit/virtual_clock.ts";
import { Bench, hanging } from "./worker_kit.ts";

/** A bench whose worker runs the job of lease 1. */
async function withJob(): Promise<{ bench: Bench; close: () => Promise<void>; stop: AbortSignal }> {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  return { bench, close: () => started.close(bench), stop: bench.runner.job(1).control.stop };
}

/** Times of the calls of `name`, in seconds since the first. */
function times(bench: Bench, name: string): number[] {
  const at = bench.server.calls.filter((each) => each.call === name).map((each) => each.at / 1000);
  return at.map((each) => each - (at[0] ?? 0));
}

Deno.test("a heartbeat goes out every renew period, and lists what runs", async () => {
  const { bench, close } = await withJob();
  await bench.clock.advance(35_000);
  assert.deepEqual(times(bench, "heartbeat"), [0, 10, 20, 30]);
  assert.deepEqual(bench.server.of("heartbeat").slice(1), [{ 1: null }, { 1: null }, { 1: null }]);
  await close();
});

Deno.test("a heartbeat lists jobs that start, jobs that run with their session, and finished ones", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1), await bench.grant(2), await bench.grant(3));
  const get = bench.cas.get.bind(bench.cas);
  const slow = bench.server.queue[2]?.job_cid;
  bench.cas.get = (cid) => cid === slow ? hanging() : get(cid);
  const started = await bench.start();
  await bench.runner.job(2).control.started({ runtime: "x", data: {} }, "session-2");
  bench.server.on["report"] = () => hanging();
  bench.runner.finish(1);
  await bench.clock.advance(10_000);
  assert.deepEqual(bench.server.of("heartbeat").at(-1), { 1: null, 2: "session-2", 3: null });
  await started.close(bench);
});

Deno.test("reports, acquires and long-polls that hang stop no heartbeat", async () => {
  const { bench, close, stop } = await withJob();
  for (const call of ["report", "acquire", "messages", "lost", "started"]) {
    bench.server.on[call] = () => hanging();
  }
  bench.runner.finish(1);
  await bench.clock.advance(900_000);
  assert.equal(times(bench, "heartbeat").length, 91);
  assert.equal(stop.aborted, false);
  await close();
});

Deno.test("a finished job is renewed for as long as its report is not accepted", async () => {
  const { bench, close } = await withJob();
  bench.server.on["report"] = () =>
    Promise.reject(new SubletError("unavailable", "the store is down"));
  bench.runner.finish(1);
  await bench.clock.advance(3_600_000);
  assert.deepEqual(bench.server.of("heartbeat").at(-1), { 1: null });
  bench.server.on = {};
  await bench.clock.advance(5_000);
  assert.deepEqual(bench.spool.aside, []);
  assert.deepEqual(bench.runner.cleaned, [1]);
  await close();
});

Deno.test("a heartbeat that hangs is given up within the renew period and sent again", async () => {
  const { bench, close } = await withJob();
  bench.server.on["heartbeat"] = () => hanging();
  await bench.clock.advance(60_000);
  const gaps = times(bench, "heartbeat").slice(1).map((at, i, all) => at - (all[i - 1] ?? 0));
  assert.ok(gaps.every((gap) => gap <= 20), String(gaps));
  bench.server.on = {};
  await bench.clock.advance(20_000);
  assert.equal(bench.logged("worker.reachable").length, 1);
  await close();
});

Deno.test("jobs stop two heartbeats before the server may give them away, and not earlier", async () => {
  const { bench, close, stop } = await withJob();
  await bench.clock.advance(10_000);
  bench.server.down = true;
  await bench.clock.advance(279_000);
  assert.equal(stop.aborted, false);
  await bench.clock.advance(1_000);
  assert.equal(stop.aborted, true);
  assert.match(String(stop.reason), /silent for 280 s/);
  await close();
});

Deno.test("silence counts from when the last answered heartbeat was sent, not from its answer", async () => {
  const { bench, close, stop } = await withJob();
  let answers = 0;
  bench.server.on["heartbeat"] = async () => {
    if (answers++ > 0) throw new SubletError("unreachable", "gone");
    await bench.clock.sleep(9_000);
    return new Map([[1, "renewed"]]);
  };
  await bench.clock.advance(10_000);
  await bench.clock.advance(279_000);
  assert.equal(stop.aborted, false);
  await bench.clock.advance(1_000);
  assert.equal(stop.aborted, true);
  await close();
});

Deno.test("a suspended machine stops its jobs on waking, before it calls anybody", async () => {
  const { bench, close, stop } = await withJob();
  await bench.clock.advance(5_000);
  bench.clock.jumpWall(7_200_000);
  const before = bench.server.calls.length;
  let stoppedAt = -1;
  stop.addEventListener("abort", () => stoppedAt = bench.server.calls.length);
  await bench.clock.advance(1_000);
  assert.equal(stop.aborted, true);
  assert.equal(stoppedAt, before);
  await close();
});

Deno.test("a machine that wakes exactly when a heartbeat is due stops its jobs before it sends it", async () => {
  const { bench, close, stop } = await withJob();
  await bench.clock.advance(9_999.5);
  bench.clock.jumpWall(7_200_000);
  let stopped: boolean | null = null;
  bench.server.on["heartbeat"] = () => {
    stopped ??= stop.aborted;
    return new Map();
  };
  await bench.clock.advance(0.5);
  assert.equal(stopped, true);
  await close();
});

Deno.test("a wall clock that is set back or slightly forward stops nothing", async () => {
  const { bench, close, stop } = await withJob();
  bench.clock.jumpWall(-3 * 86_400_000);
  await bench.clock.advance(600_000);
  bench.clock.jumpWall(200_000);
  await bench.clock.advance(600_000);
  assert.equal(stop.aborted, false);
  assert.equal(times(bench, "heartbeat").length, 121);
  await close();
});

Deno.test("a wall clock that was set back hides no silence", async () => {
  const { bench, close, stop } = await withJob();
  await bench.clock.advance(10_000);
  bench.server.down = true;
  bench.clock.jumpWall(-3 * 86_400_000);
  await bench.clock.advance(279_000);
  assert.equal(stop.aborted, false);
  await bench.clock.advance(1_000);
  assert.equal(stop.aborted, true);
  await close();
});

Deno.test("a job that goes on although it must stop is reported again every renew period", async () => {
  const { bench, close } = await withJob();
  bench.runner.deaf = true;
  bench.server.down = true;
  await bench.clock.advance(320_000);
  const said = bench.logged("worker.still_stopping");
  assert.ok(said.length >= 3 && said.length <= 5, String(said.length));
  await close();
});

Deno.test("a revoked job stops and still reports", async () => {
  const { bench, close, stop } = await withJob();
  bench.server.answers.set(1, "revoked");
  await bench.clock.advance(10_000);
  assert.equal(stop.aborted, true);
  assert.equal(bench.server.of("report").length, 1);
  await close();
});

Deno.test("a stale job stops, is cleaned up, and reports nothing", async () => {
  const { bench, close, stop } = await withJob();
  bench.server.answers.set(1, "stale");
  await bench.clock.advance(10_000);
  assert.equal(stop.aborted, true);
  assert.deepEqual(bench.server.of("report"), []);
  assert.deepEqual(bench.server.of("lost"), []);
  assert.deepEqual(bench.runner.cleaned, [1]);
  assert.deepEqual(await bench.spool.load("desk"), []);
  await close();
});

Deno.test("a stale answer drops no report that is spooled: the server keeps it as evidence", async () => {
  const { bench, close } = await withJob();
  let settled = false;
  bench.server.on["report"] = () => {
    if (!settled) throw new SubletError("unavailable", "not now");
    throw new SubletError("stale_lease", "too late");
  };
  bench.runner.finish(1);
  bench.server.answers.set(1, "stale");
  await bench.clock.advance(20_000);
  assert.equal((await bench.spool.load("desk")).length, 1);
  settled = true;
  await bench.clock.advance(5_000);
  assert.deepEqual(await bench.spool.load("desk"), []);
  assert.equal(bench.logged("report.refused").length, 1);
  await close();
});

Deno.test("a proxy's momentary refusals of every call stop no job and end no worker", async () => {
  const { bench, close, stop } = await withJob();
  for (const call of ["heartbeat", "acquire", "messages"]) {
    bench.server.on[call] = () => Promise.reject(new UnexplainedStatus(403, "a page"));
  }
  await bench.clock.advance(120_000);
  bench.server.on = {};
  await bench.clock.advance(200_000);
  assert.equal(stop.aborted, false);
  await close();
});

Deno.test("an outage is logged when it begins, once a minute, and when it ends", async () => {
  const { bench, close } = await withJob();
  bench.server.down = true;
  await bench.clock.advance(125_000);
  const beats = () =>
    bench.logged("worker.unreachable").filter((each) => each["call"] === "heartbeat");
  assert.equal(beats().length, 2);
  bench.server.down = false;
  await bench.clock.advance(10_000);
  assert.ok(bench.logged("worker.reachable").some((each) => each["call"] === "heartbeat"));
  await close();
});

Deno.test("a host that does not answer for its sample keeps the heartbeats going with the last one", async () => {
  const bench = new Bench();
  let stuck = false;
  const sample = { at: "x", cpus: 1, load1: 0, memory_available: 1, disk_free: 1 };
  const started = await bench.start({
    sampleHost: () => stuck ? hanging() : Promise.resolve(sample),
  });
  stuck = true;
  await bench.clock.advance(60_000);
  await settle();
  assert.ok(times(bench, "heartbeat").length >= 5);
  await started.close(bench);
});
