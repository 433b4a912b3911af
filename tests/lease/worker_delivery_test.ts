/** @module A worker under a virtual clock: what becomes of a report when the server does not simply take it. */

import assert from "node:assert/strict";
import { type ErrorCode, SubletError } from "../../lib/home/mod.ts";
import { UnexplainedStatus } from "../../lib/lease/http_client_refusal.ts";
import { settle } from "../kit/virtual_clock.ts";
import { Bench, hanging, reportOf, unreachable } from "./worker_kit.ts";

/** A bench whose worker finished lease 1 while `report` answers as told. */
async function finished(report: () => unknown) {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.server.on["report"] = report;
  bench.runner.finish(1);
  await settle();
  return { bench, started };
}

function refusing(code: ErrorCode): () => never {
  return () => {
    throw new SubletError(code, `refused: ${code}`);
  };
}

Deno.test("a report that got no answer is sent again with the same request id", async () => {
  let tries = 0;
  const { bench, started } = await finished(() => {
    if (tries++ < 3) throw unreachable();
  });
  await bench.clock.advance(5_000);
  const sent = bench.server.of("report");
  assert.equal(sent.length, 4);
  assert.equal(new Set(sent.map((args) => args["requestId"])).size, 1);
  assert.deepEqual(await bench.spool.load("desk"), []);
  await started.close(bench);
});

Deno.test("a server that answers again gets the waiting reports at that moment", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  let away = true;
  for (const call of ["acquire", "messages"]) {
    bench.server.on[call] = () => Promise.reject(unreachable());
  }
  bench.server.on["heartbeat"] = () => {
    if (bench.clock.monotonic() < begin + 60_000) throw unreachable();
    away = false;
    return new Map([[1, "renewed"]]);
  };
  bench.server.on["report"] = () => {
    if (away) throw unreachable();
  };
  const begin = bench.clock.monotonic();
  await bench.clock.advance(13_300);
  bench.runner.finish(1);
  await bench.clock.advance(60_000);
  const beat = bench.server.calls.find(({ call, at }) =>
    call === "heartbeat" && at >= begin + 60_000
  );
  const report = bench.server.calls.findLast(({ call }) => call === "report");
  assert.equal(report?.at, beat?.at);
  assert.deepEqual(await bench.spool.load("desk"), []);
  await started.close(bench);
});

Deno.test("a report that is refused as stale is dropped, and the slot is free", async () => {
  const { bench, started } = await finished(refusing("stale_lease"));
  assert.equal(bench.server.of("report").length, 1);
  assert.deepEqual(await bench.spool.load("desk"), []);
  assert.deepEqual(bench.runner.cleaned, [1]);
  assert.deepEqual(started.worker.leases, []);
  await started.close(bench);
});

Deno.test("a report whose blobs the server lacks loses the job", async () => {
  const { bench, started } = await finished(refusing("missing_blobs"));
  assert.deepEqual(bench.server.of("lost"), [{ lease: 1, reason: "refused: missing_blobs" }]);
  assert.deepEqual(await bench.spool.load("desk"), []);
  await started.close(bench);
});

Deno.test("a report that says its job was cut short is sent for a revoke, and else the job is given back", async () => {
  for (const revoked of [true, false]) {
    const bench = new Bench();
    bench.runner.stoppedReport = { report: { kind: "evaluation", stopped: true } };
    bench.server.queue.push(await bench.grant(1));
    const started = await bench.start();
    if (revoked) bench.server.post({ kind: "revoke", id: 1, lease: 1 });
    else bench.server.down = true;
    await bench.clock.advance(280_000);
    bench.server.down = false;
    await bench.clock.advance(10_000);
    assert.deepEqual(
      bench.server.of("report").filter((args) => args["lease"] === 1).length > 0,
      revoked,
    );
    assert.deepEqual(bench.server.of("lost").length > 0, !revoked);
    if (!revoked) assert.match(String(bench.server.of("lost")[0]?.["reason"]), /silent for 280 s/);
    await started.close(bench);
  }
});

Deno.test("a lost that got no answer is kept and sent again, also by the next process", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.server.on["lost"] = () => Promise.reject(unreachable());
  bench.runner.job(1).finish({ lost: "its disk died" });
  await settle();
  assert.deepEqual(bench.server.of("heartbeat").length, 1);
  await started.close(bench);
  assert.equal((await bench.spool.load("desk")).length, 1);
  bench.server.on = {};
  const next = await bench.start();
  assert.equal(bench.server.of("lost").at(-1)?.["reason"], "its disk died");
  assert.deepEqual(await bench.spool.load("desk"), []);
  await next.close(bench);
});

Deno.test("a spool that cannot be read is read again before anything is given back as lost", async () => {
  const bench = new Bench();
  const grant = await bench.grant(1);
  const job = { kind: "evaluation", evaluation: 1 };
  await bench.spool.keep("desk", { lease: 1, requestId: "r", outcome: reportOf("done"), job });
  bench.server.held = [grant];
  const load = bench.spool.load.bind(bench.spool);
  let failing = 3;
  bench.spool.load = (worker) =>
    failing-- > 0 ? Promise.reject(new SubletError("unavailable", "no file")) : load(worker);
  const started = await bench.start();
  assert.deepEqual(bench.runner.jobs, []);
  await bench.clock.advance(2_000);
  assert.deepEqual(bench.server.of("report").map(({ requestId }) => requestId), ["r"]);
  assert.deepEqual(bench.runner.jobs, []);
  assert.equal(bench.logged("spool.failed").length, 3);
  await started.close(bench);
});

for (const code of ["invalid_body", "unsafe_path", "too_large", "invalid_request"] as const) {
  Deno.test(`a report that is refused as ${code} is set aside and its job given back`, async () => {
    const { bench, started } = await finished(refusing(code));
    assert.deepEqual(bench.spool.aside, ["desk/1"]);
    assert.deepEqual(bench.server.of("lost").map((args) => args["lease"]), [1]);
    assert.deepEqual(started.worker.leases, []);
    await started.close(bench);
  });
}

Deno.test("an answer that no server of ours gives is tried again, then the report is set aside", async () => {
  let answers = 0;
  const { bench, started } = await finished(() => {
    answers++;
    throw new UnexplainedStatus(413, "a proxy's page");
  });
  await bench.clock.advance(30_000);
  assert.ok(answers > 3 && answers < 20, String(answers));
  assert.deepEqual(bench.spool.aside, []);
  await bench.clock.advance(120_000);
  assert.equal(answers, 20);
  assert.deepEqual(bench.spool.aside, ["desk/1"]);
  assert.equal(bench.server.of("lost").length, 1);
  await started.close(bench);
});

Deno.test("one report that the server cannot take does not hold up another", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1), await bench.grant(2));
  const started = await bench.start();
  bench.server.on["report"] = (args) => {
    if ((args as { lease: number }).lease === 1) return hanging();
  };
  bench.runner.finish(1);
  bench.runner.finish(2);
  await settle();
  assert.deepEqual(started.worker.leases, [1]);
  await started.close(bench);
});

Deno.test("a disk that is full does not lose a report: it is sent from memory", async () => {
  const bench = new Bench();
  bench.spool.keep = () => Promise.reject(new SubletError("unavailable", "no space left"));
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.runner.finish(1);
  await settle();
  assert.deepEqual(bench.server.of("report").map((args) => args["lease"]), [1]);
  assert.equal(bench.logged("spool.failed").length, 1);
  await started.close(bench);
});

Deno.test("started that is stale stops the job, and nothing is reported", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.server.on["started"] = refusing("stale_lease");
  const { control } = bench.runner.job(1);
  assert.equal(await control.started({ pgid: 1, start_time: 2 }, null), false);
  assert.equal(control.stop.aborted, true);
  await settle();
  assert.deepEqual(bench.server.of("report"), []);
  await started.close(bench);
});

Deno.test("started that gets no answer delays no job, and is told until the server knows", async () => {
  const bench = new Bench();
  bench.server.queue.push(await bench.grant(1));
  const started = await bench.start();
  bench.server.on["started"] = () => Promise.reject(unreachable());
  const { control } = bench.runner.job(1);
  assert.equal(await control.started({ pgid: 1, start_time: 2 }, null), true);
  await bench.clock.advance(10_000);
  bench.server.on["started"] = refusing("stale_lease");
  await bench.clock.advance(5_000);
  assert.equal(control.stop.aborted, true);
  assert.deepEqual(bench.server.of("report"), []);
  await started.close(bench);
});

Deno.test("an acquire that got no answer is asked again with its id, so no lease is left behind", async () => {
  const bench = new Bench();
  const grant = await bench.grant(1);
  const taken = new Map<unknown, unknown>();
  let lossy = true;
  let lost = 0;
  bench.server.on["acquire"] = (args) => {
    const { requestId } = args as { requestId: string };
    const answer = taken.get(requestId) ?? (taken.size === 0 ? grant : "nothing");
    taken.set(requestId, answer);
    // Sometimes nobody answers, and sometimes a proxy does.
    if (lossy) throw lost++ % 2 === 0 ? unreachable() : new UnexplainedStatus(404, "a page");
    return answer;
  };
  const started = await bench.start();
  await bench.clock.advance(60_000);
  assert.equal(taken.size, 1);
  lossy = false;
  await bench.clock.advance(6_000);
  assert.equal(bench.runner.job(1).how, "run");
  assert.deepEqual(bench.server.of("lost"), []);
  await started.close(bench);
});

Deno.test("a second process re-sends what the first spooled, and does not recover that lease", async () => {
  const bench = new Bench();
  const grant = await bench.grant(1);
  await bench.spool.keep("desk", {
    lease: 1,
    requestId: "of the first",
    outcome: reportOf("done"),
    job: { kind: "evaluation" },
  });
  bench.server.held = [grant, await bench.grant(2)];
  const started = await bench.start();
  assert.deepEqual(bench.server.of("report").map((args) => args["requestId"]), ["of the first"]);
  assert.deepEqual(bench.runner.jobs.map((job) => [job.lease, job.how]), [[2, "recover"]]);
  assert.deepEqual(bench.runner.cleaned, [1]);
  await started.close(bench);
});
