/** @module Versions of a repo go to those alone who work on it: a live lease, of the caller's own, on that repo. */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { type HttpWorker, Served } from "./routes_kit.ts";

const CID = cidOf(new Uint8Array([1]));

/** A served rig whose repo of record has something to send. */
async function serving(): Promise<Served> {
  const served = await Served.make();
  served.send = () => Promise.resolve([CID]);
  return served;
}

async function registered(served: Served, name: string): Promise<HttpWorker> {
  const worker = await served.worker(name);
  assert.equal((await worker.register()).status, 200);
  return worker;
}

/** What `worker` gets of `repo`: `sent`, or the code of its refusal. */
async function gets(worker: HttpWorker, repo: number): Promise<string> {
  const body = { repo, revisions: ["a".repeat(40)], have: [], wait: 0 };
  const { status, json } = await worker.call("send", body);
  if (status === 200) {
    assert.deepEqual(json, [CID]);
    return "sent";
  }
  assert.equal(status, 409, JSON.stringify(json));
  if (json.error === "not_sent") {
    assert.match(json.detail, new RegExp(`no live lease on a job of repo ${repo}`));
  }
  return json.error;
}

Deno.test("without a lease, or with one of another campaign, nothing is sent", async () => {
  await using served = await serving();
  await served.rig.submit({ repo: 1 });
  await served.rig.submit({ repo: 2 });
  const worker = await registered(served, "w");
  assert.equal(await gets(worker, 1), "not_sent");
  await worker.take();
  assert.equal(await gets(worker, 1), "sent");
  assert.equal(await gets(worker, 2), "not_sent");
  assert.equal(await gets(worker, 3), "not_sent");
  await worker.take();
  assert.equal(await gets(worker, 2), "sent");
});

Deno.test("another worker's lease, and a job of no repo, are none", async () => {
  await using served = await serving();
  await served.rig.submit({ repo: 1 });
  const [holder, other] = [await registered(served, "holder"), await registered(served, "other")];
  await holder.take();
  assert.equal(await gets(holder, 1), "sent");
  assert.equal(await gets(other, 1), "not_sent");
  await served.rig.submit({ repo: null });
  await other.take();
  assert.equal(await gets(other, 1), "not_sent");
});

Deno.test("a lease that ended is none: reported, lost, or given to somebody else", async () => {
  await using served = await serving();
  for (let repo = 1; repo <= 3; repo++) await served.rig.submit({ repo });
  const worker = await registered(served, "w");
  const first = await worker.take();
  assert.equal(await gets(worker, 1), "sent");
  const report = { lease: first, request_id: "r", report: { kind: "fake", value: 1 } };
  assert.equal((await worker.call("report", report)).status, 200);
  assert.equal(await gets(worker, 1), "not_sent");
  const second = await worker.take();
  assert.equal(await gets(worker, 2), "sent");
  await worker.call("lost", { lease: second, reason: "x" });
  assert.equal(await gets(worker, 2), "not_sent");

  await worker.take();
  assert.equal(await gets(worker, 3), "sent");
  await served.rig.clock.advance(20 * 60 * 1000);
  const next = await registered(served, "next");
  assert.notEqual(await gets(worker, 3), "sent", "it was silent for too long");
  await next.take();
});

Deno.test("a worker that never registered gets nothing, whoever it is", async () => {
  await using served = await serving();
  await served.rig.submit({ repo: 1 });
  const stranger = await served.worker("stranger");
  assert.notEqual(await gets(stranger, 1), "sent");
  const reader = await served.token("reader", { access: "read" });
  const body = { repo: 1, revisions: ["a".repeat(40)], have: [], wait: 0 };
  const worker = await served.worker("w");
  const { status } = await Object.assign(worker, {
    headers: { authorization: `Bearer ${reader}` },
  }).call("send", body);
  assert.ok(status === 401 || status === 403, `${status}`);
});
