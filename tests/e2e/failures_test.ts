// deno-lint-ignore-file no-non-null-assertion -- a missing value fails the test anyway
/** @module Evaluations end exactly once when workers, the server or the network fail. Real processes throughout. */

import assert from "node:assert/strict";
import { Cluster, type EvaluationResult, type JobResult, PATIENT, TIMING } from "./cluster.ts";
import { TcpProxy } from "./tcp_proxy.ts";
import { until } from "../kit/mod.ts";

/**
 * The job has one accepted result, under its newest lease, and `leases` leases: exactly, where nobody may be given up,
 * and at least, where a busy machine may lose more of them.
 */
function assertOnce(job: JobResult, leases: number, how: "exactly" | "at least"): void {
  assert.equal(job.state, "reported", JSON.stringify(job));
  const found = job.leases.length;
  assert.ok(how === "exactly" ? found === leases : found >= leases, JSON.stringify(job.leases));
  const accepted = job.leases.filter((lease) => lease.state === "reported");
  assert.equal(accepted.length, 1);
  assert.equal(accepted[0]?.lease, Math.max(...job.leases.map((lease) => lease.lease)));
}

function only(queued: readonly EvaluationResult[]): EvaluationResult {
  assert.equal(queued.length, 1);
  return queued[0]!;
}

Deno.test("a killed worker's job is queued again under a larger lease and counted once", async () => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  await cluster.serveCas();
  const [revision] = await cluster.campaign([7]);
  await cluster.worker("ant");
  const queued = only(await cluster.queue(revision!));
  await cluster.runsReach(1);
  cluster.programs.kill("ant");
  await cluster.worker("bee");
  await cluster.runsReach(2);
  await cluster.open();
  const result = await cluster.ended(queued);
  assert.equal(result.state, "measured");
  assert.deepEqual(result.metrics, { score: 7 });
  assert.equal(result.worker, "bee");
  assertOnce(await cluster.job(queued.job), 2, "at least");
});

Deno.test("a server killed under a running evaluation loses neither it nor what is queued", async () => {
  await using cluster = await Cluster.make({ timing: PATIENT });
  await cluster.serve();
  await cluster.serveCas();
  const [first, second] = await cluster.campaign([1, 2]);
  await cluster.worker("ant");
  const [running, waiting] = await cluster.queue(first!, second!);
  await cluster.runsReach(1);
  cluster.programs.kill("server");
  await cluster.programs.ended("server");
  await cluster.open();
  await cluster.serve();
  assert.deepEqual((await cluster.ended(running!)).metrics, { score: 1 });
  assert.deepEqual((await cluster.ended(waiting!)).metrics, { score: 2 });
  assertOnce(await cluster.job(running!.job), 1, "exactly");
  assertOnce(await cluster.job(waiting!.job), 1, "exactly");
  assert.equal((await cluster.runs()).length, 2);
});

Deno.test("a worker killed after its job ended sends the spooled report when it is started again", async () => {
  await using cluster = await Cluster.make({ timing: PATIENT });
  await cluster.serve();
  await cluster.serveCas();
  const [revision] = await cluster.campaign([5]);
  const token = await cluster.worker("ant");
  const queued = only(await cluster.queue(revision!));
  await cluster.runsReach(1);
  cluster.programs.kill("server");
  await cluster.programs.ended("server");
  await cluster.open();
  const spool = `${cluster.root}/ant/spool/ant`;
  await until("the report is in the spool", async () => {
    const names = await Array.fromAsync(Deno.readDir(spool)).catch(() => []);
    return names.some((entry) => entry.name.endsWith(".json"));
  });
  cluster.programs.kill("ant");
  await cluster.programs.ended("ant");
  await cluster.serve();
  await cluster.startWorker("ant", token);
  const result = await cluster.ended(queued);
  assert.deepEqual(result.metrics, { score: 5 });
  assertOnce(await cluster.job(queued.job), 1, "exactly");
  assert.equal((await cluster.runs()).length, 1);
});

Deno.test("a worker started again kills what it left running, and the job runs once more", async () => {
  await using cluster = await Cluster.make({ timing: PATIENT });
  await cluster.serve();
  await cluster.serveCas();
  const [revision] = await cluster.campaign([3]);
  const token = await cluster.worker("ant");
  const queued = only(await cluster.queue(revision!));
  await cluster.runsReach(1);
  const left = Number((await cluster.runs())[0]?.split(" ")[1]);
  cluster.programs.kill("ant");
  await cluster.programs.ended("ant");
  await cluster.startWorker("ant", token);
  await cluster.runsReach(2);
  await until("the evaluator that was left is gone", () => !alive(left));
  await cluster.open();
  assert.deepEqual((await cluster.ended(queued)).metrics, { score: 3 });
  assertOnce(await cluster.job(queued.job), 2, "exactly");
});

Deno.test("a worker that comes back after its lease was lost kills what it left running", async () => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  await cluster.serveCas();
  const [revision] = await cluster.campaign([4]);
  const token = await cluster.worker("ant");
  const queued = only(await cluster.queue(revision!));
  await cluster.runsReach(1);
  const left = Number((await cluster.runs())[0]?.split(" ")[1]);
  cluster.programs.kill("ant");
  await cluster.programs.ended("ant");
  await cluster.worker("bee");
  await cluster.runsReach(2);
  assert.ok(alive(left), "nobody could stop it yet");
  await cluster.startWorker("ant", token);
  await until("the evaluator that was left is gone", () => !alive(left));
  await cluster.open();
  assert.equal((await cluster.ended(queued)).worker, "bee");
  assertOnce(await cluster.job(queued.job), 2, "at least");
});

Deno.test("a partitioned worker stops its own job before another starts it, and rejoins", async () => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  await cluster.serveCas();
  const [revision] = await cluster.campaign([9]);
  await using proxy = new TcpProxy(Number(new URL(cluster.server).port));
  await cluster.worker("ant", { server: proxy.url });
  const queued = only(await cluster.queue(revision!));
  await cluster.runsReach(1);
  const first = Number((await cluster.runs())[0]?.split(" ")[1]);
  proxy.cut();
  await until("the silent worker stops its evaluator", () => !alive(first), TIMING.toleration * 5);
  assert.equal((await cluster.runs()).length, 1);
  proxy.mend();
  await cluster.runsReach(2);
  await cluster.open();
  assert.deepEqual((await cluster.ended(queued)).metrics, { score: 9 });
  const job = await cluster.job(queued.job);
  assertOnce(job, 2, "at least");
  assert.ok(job.leases.every((lease) => lease.worker === "ant"));
});

function alive(pid: number): boolean {
  try {
    const state = Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ").at(-1)?.[0];
    return state !== "Z" && state !== "X";
  } catch {
    return false;
  }
}
