/** @module A worker under a virtual clock: jobs that take prompts, ask for secrets, tell what they write, and are left. */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import { UnexplainedStatus } from "../../lib/lease/http_client_refusal.ts";
import type { Message } from "../../lib/lease/wire.ts";
import { settle } from "../kit/virtual_clock.ts";
import { Bench, FakeAgents, reportOf, unreachable } from "./worker_kit.ts";

function prompt(id: number, lease = 1): Message {
  return { kind: "prompt", id, lease, prompt: { id: id + 1000, text: `text ${id}` } };
}

/** A worker with one job that runs. */
async function running() {
  const bench = new Bench();
  const agents = new FakeAgents();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start({ runners: [agents] });
  await settle();
  return { bench, agents, started, job: agents.job(1) };
}

const PART = {
  stream: "session",
  offset: 0,
  bytes: 3,
  blob: cidOf(new TextEncoder().encode("abc")),
  usage: null,
  session: null,
};

Deno.test("a prompt goes to the runner of its job, by the prompt's own id", async () => {
  const { bench, agents, started } = await running();
  bench.server.post(prompt(5));
  await settle();
  assert.deepEqual(agents.prompts, [{ lease: 1, id: 1005, text: "text 5" }]);
  assert.deepEqual(bench.server.of("queued"), [{ message: 5, error: null }]);
  await started.close(bench);
});

Deno.test("a prompt for a job that is not read yet waits for that", async () => {
  const bench = new Bench();
  const agents = new FakeAgents();
  const grant = await bench.grant(1);
  const get = bench.cas.get.bind(bench.cas);
  let away = true;
  bench.cas.get = (cid) => away ? Promise.reject(unreachable()) : get(cid);
  bench.server.queue.push(grant);
  const started = await bench.start({ runners: [agents] });
  bench.server.post(prompt(5));
  await bench.clock.advance(2_000);
  assert.deepEqual(bench.server.of("queued"), []);
  away = false;
  await bench.clock.advance(20_000);
  assert.deepEqual(bench.server.of("queued"), [{ message: 5, error: null }]);
  assert.equal(agents.prompts.length, 1);
  await started.close(bench);
});

Deno.test("a worker that leaves takes no prompt for a job that it leaves", async () => {
  const { bench, agents, started } = await running();
  started.worker.leave();
  bench.server.post(prompt(5));
  await settle();
  await bench.clock.advance(10_000);
  assert.deepEqual(agents.prompts, []);
  assert.deepEqual(bench.server.of("queued"), []);
  assert.equal(started.end?.how, "stopped");
});

Deno.test("a worker that leaves reports nothing of the jobs that it leaves, and gives back the others", async () => {
  const bench = new Bench();
  const agents = new FakeAgents();
  const others = Object.assign(Object.create(bench.runner), { kind: "evaluation" });
  Object.defineProperty(agents, "kind", { value: "agent" });
  const job = new TextEncoder().encode(JSON.stringify({ kind: "agent" }));
  bench.server.queue.push(
    { lease: 1, job_cid: await bench.cas.put(job), handle: null, started_at: null },
    await bench.grant(2),
  );
  bench.runner.stoppedReport = { report: { kind: "evaluation", stopped: true } };
  const started = await bench.start({ runners: [agents, others] });
  await settle();
  started.worker.leave();
  await bench.clock.advance(10_000);
  assert.equal(started.end?.how, "stopped");
  assert.deepEqual(bench.server.of("report"), []);
  assert.deepEqual(bench.server.of("lost").map(({ lease }) => lease), [2]);
  assert.deepEqual(agents.cleaned, []);
});

Deno.test("secrets are asked for until the server answers, and a refusal is told", async () => {
  const { bench, started, job } = await running();
  const { signal } = new AbortController();
  let tries = 0;
  bench.server.on["secrets"] = () => {
    if (++tries < 3) throw unreachable();
    return Promise.resolve(new Map([["KEY", "value"]]));
  };
  const asked = job.control.secrets?.(signal);
  await bench.clock.advance(10_000);
  assert.deepEqual(await asked, new Map([["KEY", "value"]]));
  bench.server.on["secrets"] = () => {
    throw new SubletError("stale_lease", "gone");
  };
  await assert.rejects(job.control.secrets?.(signal) ?? Promise.resolve(), { code: "stale_lease" });
  const stop = new AbortController();
  bench.server.on["secrets"] = () => Promise.reject(unreachable());
  const cut = job.control.secrets?.(stop.signal);
  stop.abort(new Error("enough"));
  await assert.rejects(cut ?? Promise.resolve(), { code: "cancelled" });
  await started.close(bench);
});

Deno.test("what a job writes is told under its lease, once a try", async () => {
  const { bench, started, job } = await running();
  assert.equal(await job.control.saved?.(PART), true);
  assert.deepEqual(bench.server.of("saved"), [{ ...PART, lease: 1 }]);
  bench.server.on["saved"] = () => Promise.reject(unreachable());
  await assert.rejects(job.control.saved?.(PART) ?? Promise.resolve(), { code: "unreachable" });
  bench.server.on["saved"] = () => Promise.reject(new SubletError("stale_lease", "gone"));
  assert.equal(await job.control.saved?.(PART), false);
  await started.close(bench);
});

Deno.test("a server that has no call for what jobs write is left alone for ten minutes", async () => {
  const { bench, started, job } = await running();
  bench.server.on["saved"] = () => Promise.reject(new UnexplainedStatus(404, "not found"));
  assert.equal(await job.control.saved?.(PART), false);
  assert.equal(await job.control.saved?.(PART), false);
  assert.equal(bench.server.of("saved").length, 1);
  assert.equal(started.end, null);
  await bench.clock.advance(10 * 60_000);
  delete bench.server.on["saved"];
  assert.equal(await job.control.saved?.(PART), true);
  await started.close(bench);
});

Deno.test("the next heartbeat, which is at once, tells the session that a job is known to be", async () => {
  const { bench, started, job } = await running();
  const before = bench.server.of("heartbeat").length;
  job.control.identified?.("session-1");
  await settle();
  assert.deepEqual(bench.server.of("heartbeat").slice(before), [{ 1: "session-1" }]);
  await started.close(bench);
});

Deno.test("a report under a stale lease is sent all the same where it is evidence", async () => {
  const { bench, agents, started } = await running();
  bench.server.answers.set(1, "stale");
  bench.server.on["report"] = () => Promise.reject(new SubletError("stale_lease", "late"));
  await bench.clock.advance(11_000);
  await settle();
  assert.equal(bench.server.of("report").length, 1);
  assert.deepEqual(agents.cleaned, [1]);
  await started.close(bench);
});

Deno.test("what an earlier process left of lost leases is sent as evidence, and then removed", async () => {
  const bench = new Bench();
  const agents = new FakeAgents();
  agents.left = [{ lease: 9, job: { kind: "evaluation" }, ...reportOf("left") }];
  bench.server.on["report"] = () => Promise.reject(new SubletError("stale_lease", "late"));
  const started = await bench.start({ runners: [agents] });
  await settle();
  assert.deepEqual(bench.server.of("report").map(({ lease }) => lease), [9]);
  assert.deepEqual(agents.cleaned, [9]);
  assert.deepEqual(started.worker.leases, []);
  await started.close(bench);
});
