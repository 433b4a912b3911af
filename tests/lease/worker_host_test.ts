/** @module A worker whose machine can do no job: it asks for none, says so, and asks again once it can. */

import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import type { HostSample } from "../../lib/lease/wire.ts";
import { settle } from "../kit/virtual_clock.ts";
import { Bench } from "./worker_kit.ts";

function diskOf(free: { bytes: number }): () => Promise<HostSample> {
  return () =>
    Promise.resolve({ at: "x", cpus: 2, load1: 0, memory_available: 1e9, disk_free: free.bytes });
}

const FULL = Object.assign(new Error("No space left on device (os error 28)"), { code: "ENOSPC" });

Deno.test("a worker without free disk asks for no job, says so once, and asks when there is room", async () => {
  const bench = new Bench();
  const free = { bytes: 999 };
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start({ sampleHost: diskOf(free), host: { reserve: 1000 } });
  await bench.clock.advance(60_000);
  assert.deepEqual(bench.server.of("acquire"), []);
  assert.ok(bench.server.of("heartbeat").length >= 5);
  assert.deepEqual(bench.logged("worker.disk_full"), [{ free: 999, reserve: 1000 }]);
  free.bytes = 1000;
  await bench.clock.advance(10_000);
  assert.equal(bench.runner.job(1).how, "run");
  assert.equal(bench.logged("worker.host_ready").length, 1);
  await started.close(bench);
});

Deno.test("a worker without free disk makes room first", async () => {
  const bench = new Bench();
  const free = { bytes: 400 };
  const asked: number[] = [];
  bench.server.queue.push(await bench.grant(1));
  const makeRoom = (bytes: number) => {
    asked.push(bytes);
    free.bytes += bytes;
    return Promise.resolve();
  };
  const host = { reserve: 1000, makeRoom };
  const started = await bench.start({ sampleHost: diskOf(free), host });
  assert.deepEqual(asked, [600]);
  assert.equal(bench.runner.job(1).how, "run");
  assert.deepEqual(bench.logged("worker.disk_full"), []);
  await started.close(bench);
});

Deno.test("an acquire whose outcome is unknown is repeated though the disk is full by now", async () => {
  const bench = new Bench();
  const free = { bytes: 1000 };
  bench.server.on["acquire"] = () => {
    free.bytes = 0;
    throw new SubletError("unreachable", "lost");
  };
  const started = await bench.start({ sampleHost: diskOf(free), host: { reserve: 1000 } });
  await bench.clock.advance(1_000);
  const ids = bench.server.of("acquire").map((args) => args["requestId"]);
  assert.ok(ids.length > 1);
  assert.equal(new Set(ids).size, 1);
  await started.close(bench);
});

Deno.test("a fault of the machine gives the job back, and each in a row makes the worker wait longer", async () => {
  const bench = new Bench();
  const at: number[] = [];
  bench.runner.run = () => {
    at.push(bench.clock.monotonic());
    return Promise.reject(FULL);
  };
  const grants = await Promise.all([1, 2, 3, 4].map((lease) => bench.grant(lease)));
  // Two at once, then one at a time.
  bench.server.queue.push(...grants.splice(0, 2));
  const started = await bench.start();
  await bench.clock.advance(20_000);
  for (const grant of grants) {
    bench.server.queue.push(grant);
    await bench.clock.advance(60_000);
  }
  assert.equal(at.length, 4);
  const [, first = 0, second = 0, third = 0] = at;
  assert.ok(second - first >= 30_000 && second - first <= 40_000, String(at));
  assert.ok(third - second >= 60_000 && third - second <= 70_000, String(at));
  assert.match(String(bench.server.of("lost")[0]?.["reason"]), /machine failed: No space left/);
  assert.ok(bench.server.of("lost").every(({ hostFault }) => hostFault === true));
  assert.equal(bench.logged("worker.host_fault").length, 4);
  await started.close(bench);
});

Deno.test("after a fault no job is asked for while the home takes no file", async () => {
  const bench = new Bench();
  let writable = false;
  let runs = 0;
  bench.runner.run = () => {
    runs++;
    return Promise.reject(FULL);
  };
  bench.server.queue.push(await bench.grant(1));
  const check = () => writable ? Promise.resolve() : Promise.reject(FULL);
  const started = await bench.start({ host: { reserve: 0, check } });
  bench.server.queue.push(await bench.grant(2));
  await bench.clock.advance(3_600_000);
  assert.equal(runs, 1);
  writable = true;
  await bench.clock.advance(620_000);
  assert.equal(runs, 2);
  await started.close(bench);
});

Deno.test("a fault of the machine is still said to be one by the next process", async () => {
  const bench = new Bench();
  bench.runner.run = () => Promise.reject(FULL);
  bench.server.on["lost"] = () => Promise.reject(new SubletError("unreachable", "nobody"));
  bench.server.queue.push(await bench.grant(1));
  await (await bench.start()).close(bench);
  bench.server.on = {};
  const calls = bench.server.of("lost").length;
  const next = await bench.start();
  assert.deepEqual(bench.server.of("lost").slice(calls).map(({ hostFault }) => hostFault), [true]);
  await next.close(bench);
});

Deno.test("a fault of the job's own makes the worker wait for nothing", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1), await bench.grant(2));
  const failing: number[] = [];
  bench.runner.run = (_job, { lease }) => {
    failing.push(lease);
    return Promise.reject(new SubletError("failed", "no such commit"));
  };
  const started = await bench.start();
  await settle();
  assert.deepEqual(failing, [1, 2]);
  await started.close(bench);
});
