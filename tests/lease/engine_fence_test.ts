import assert from "node:assert/strict";
import { type Cas, cidOf, openMemory } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import { STALE_REPORTS_OF_A_JOB } from "../../lib/lease/events.ts";
import { FakeKind, type FakeWorker, Rig } from "./engine_kit.ts";

const TOLERATION_MS = 300_000;
const blob = new TextEncoder().encode("a log");

Deno.test("started is kept once, with the newest handle, and given to the worker when it registers again", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await worker.started(lease);
  await rig.clock.advance(5000);
  await rig.engine.started(worker.caller, lease, { pgid: 8, start_time: null }, "session");
  const { held } = await worker.register();
  assert.equal(held.length, 1);
  assert.deepEqual(held[0]?.handle, { pgid: 8, start_time: null });
  assert.equal(held[0]?.started_at, "2023-11-14T22:13:20.000Z");
  assert.deepEqual((await rig.notes()).map(({ what }) => what), ["started", "started"]);
  const events = (await rig.engine.showJob(1)).events.map(({ event }) => event);
  assert.deepEqual(events, ["queued", "acquired", "running"]);
});

Deno.test("a report is applied with its job's end, once, and its repeat gets the same receipt", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  const receipts = await Promise.all([worker.report(lease), worker.report(lease)]);
  receipts.push(await worker.report(lease));
  for (const receipt of receipts) assert.deepEqual(receipt, { reported: "fake" });
  assert.deepEqual((await rig.notes()).map(({ what }) => what), ["applied"]);
  const shown = await rig.engine.showJob(job);
  assert.equal(shown.state, "reported");
  assert.equal(shown.leases[0]?.state, "reported");
  assert.deepEqual(await rig.engine.evidence(job), []);
});

Deno.test("a report with another request id on a reported lease is stale", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await worker.report(lease, { kind: "fake", value: 1 }, "one");
  await assert.rejects(worker.report(lease, { kind: "fake", value: 2 }, "two"), {
    code: "stale_lease",
  });
  assert.deepEqual((await rig.notes()).map(({ detail }) => detail), ["1"]);
  assert.equal((await rig.engine.evidence(job)).length, 1);
});

for (const says of [true, false]) {
  const how = says ? "" : ", also of processes that do not say which they are";
  Deno.test(`every call on a lease that is not the caller's live one is stale and changes nothing${how}`, () =>
    strangersAreStale(says));
}

async function strangersAreStale(says: boolean): Promise<void> {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const queued = await rig.submit({ requires: { labels: ["none"] } });
  const [owner, thief] = ["owner", "thief"].map((name) =>
    rig.worker(name, says ? {} : { incarnation: null })
  ) as [FakeWorker, FakeWorker];
  await owner.register();
  await thief.register();
  const lease = await owner.take();
  const before = await dump(rig);
  for (const [worker, id] of [[thief, lease], [owner, queued.lease], [owner, 9999]] as const) {
    await assert.rejects(worker.started(id), { code: "stale_lease" });
    await assert.rejects(worker.lost(id), { code: "stale_lease" });
    await assert.rejects(worker.report(id), { code: "stale_lease" });
    assert.equal((await worker.heartbeat(id)).get(id), "stale");
  }
  assert.equal(await dump(rig), before);
  assert.equal((await rig.engine.showJob(job)).state, "open");
}

Deno.test("a lease that is not its job's newest is stale, whatever its state says", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await rig.db.write((tx) =>
    tx.run(
      `INSERT INTO leases (job_id, state, attempt, slots, lane, campaign, priority, ready, created_at, ended_at)
       SELECT job_id, 'cancelled', 2, slots, lane, campaign, priority, 0, 1, 1 FROM leases WHERE id = ?`,
      [lease],
    )
  );
  const before = await dump(rig);
  await assert.rejects(worker.started(lease), { code: "stale_lease", message: /newer lease/ });
  await assert.rejects(worker.lost(lease), { code: "stale_lease" });
  await assert.rejects(worker.report(lease), { code: "stale_lease" });
  assert.equal((await worker.heartbeat(lease)).get(lease), "stale");
  assert.equal(await dump(rig), before);
  assert.equal((await rig.engine.showJob(job)).state, "open");
});

async function dump(rig: Rig): Promise<string> {
  return JSON.stringify(
    await rig.db.read(async (tx) => [
      await tx.all("SELECT * FROM jobs"),
      await tx.all("SELECT * FROM leases"),
      await tx.all("SELECT * FROM fake_log"),
    ]),
  );
}

Deno.test("a report by the holder of an older lease is kept as evidence, whole and once, and changes nothing", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const first = await rig.joined("first");
  const old = await first.take();
  await rig.clock.advance(TOLERATION_MS);
  const second = await rig.joined("second");
  const lease = await second.take();
  assert.ok(lease > old, "the fencing token grows");
  const body = { kind: "fake", value: 42, files: { "out.log": await rig.cas.put(blob) } };
  for (let n = 0; n < 3; n++) {
    await assert.rejects(first.report(old, body), { code: "stale_lease" });
  }
  const kept = await rig.engine.evidence(job);
  assert.equal(kept.length, 1);
  assert.deepEqual(kept[0]?.report, body);
  assert.equal(kept[0]?.worker, "first");
  assert.equal(kept[0]?.lease, old);
  assert.match(kept[0]?.reason ?? "", /it is expired/);
  await second.report(lease, { kind: "fake", value: 7 });
  assert.deepEqual((await rig.notes()).map(({ what, detail }) => [what, detail])[1], [
    "applied",
    "7",
  ]);
  const shown = (await rig.engine.showJob(job)).events.find(({ event }) =>
    event === "stale_report"
  );
  assert.equal(shown?.fields.report, "kept", "a list of events does not carry whole reports");
});

Deno.test("a long stale report is kept by its address", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await worker.lost(lease);
  const body = { kind: "fake", value: 1, more: "x".repeat(100_000) };
  await assert.rejects(worker.report(lease, body), { code: "stale_lease" });
  const [kept] = await rig.engine.evidence(job);
  assert.equal(kept?.report, undefined);
  const text = new TextEncoder().encode(JSON.stringify(body));
  assert.equal(kept?.report_cid, cidOf(text));
  assert.deepEqual(await rig.cas.get(cidOf(text)), text);
});

Deno.test("a stale report of a lease that never was is kept too", async () => {
  await using rig = await Rig.make();
  const worker = await rig.joined("w");
  await assert.rejects(worker.report(123456), { code: "stale_lease" });
  const event = (await rig.engine.events(0)).at(-1);
  assert.equal(event?.event, "stale_report");
  assert.equal(event?.lease, 123456);
  assert.equal(event?.job, null);
});

Deno.test("stale reports of a job without end are kept up to a bound, and push no other job's out", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const other = await rig.submit();
  const worker = await rig.joined("w");
  const [lease, second] = [await worker.take(), await worker.take()];
  await worker.report(lease);
  await worker.lost(second);
  const late = (id: number, request: string) =>
    assert.rejects(worker.report(id, undefined, request), { code: "stale_lease" });
  for (let n = 0; n < STALE_REPORTS_OF_A_JOB + 5; n++) await late(lease, `again-${n}`);
  await late(second, "once");
  assert.equal((await rig.engine.evidence(job)).length, STALE_REPORTS_OF_A_JOB);
  assert.equal((await rig.engine.evidence(other.job)).length, 1);
});

Deno.test("a report that names blobs which the CAS lacks changes nothing, and may come again", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  const body = { kind: "fake", value: 1, files: { "a/log": cidOf(blob) } };
  await assert.rejects(worker.report(lease, body), { code: "missing_blobs", message: /bafkr4i/ });
  assert.deepEqual(await rig.notes(), []);
  await rig.cas.put(blob);
  await worker.report(lease, body);
});

Deno.test("a report with a path that leads elsewhere is refused, and nothing changes", async () => {
  await using rig = await Rig.make();
  await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  const cid = await rig.cas.put(blob);
  for (const path of ["../x", "/etc/passwd", "a//b", ".git/hooks/x", "C:\\x", "a\0b", ""]) {
    const body = { kind: "fake", value: 1, files: { [path]: cid } };
    await assert.rejects(worker.report(lease, body), { code: "unsafe_path" }, path);
  }
  assert.deepEqual(await rig.notes(), []);
  assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
});

Deno.test("a report of another shape is invalid, and stale once its lease is over", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await assert.rejects(worker.report(lease, { kind: "other" }), { code: "invalid_body" });
  await worker.lost(lease);
  await assert.rejects(worker.report(lease, { kind: "other" }), { code: "stale_lease" });
  assert.equal((await rig.engine.evidence(job)).length, 1);
});

Deno.test("a worker that sends the same report that cannot be taken again and again loses its job", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  const bad = { kind: "other" };
  for (const body of [bad, { kind: "third" }, bad, bad]) {
    await assert.rejects(worker.report(lease, body), { code: "invalid_body" });
    assert.equal((await worker.heartbeat(lease)).get(lease), "renewed");
  }
  await assert.rejects(worker.report(lease, bad), { code: "invalid_body" });
  await assert.rejects(worker.report(lease, bad), { code: "stale_lease" });
  const { state, leases } = await rig.engine.showJob(job);
  assert.deepEqual([state, leases.map((each) => each.state)], ["open", ["expired", "queued"]]);
});

Deno.test("a fault of the kind undoes the whole report, and the next try is applied", async () => {
  const kind = new FakeKind();
  await using rig = await Rig.make({ kinds: [kind] });
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  kind.fail = () => {
    throw new Error("the kind has a fault");
  };
  await assert.rejects(worker.report(lease), /the kind has a fault/);
  kind.fail = null;
  assert.equal((await rig.engine.showJob(job)).state, "open");
  assert.deepEqual(await rig.notes(), []);
  await worker.report(lease);
  assert.equal((await rig.notes()).length, 1);
});

Deno.test("a kind that has settled the job refuses its report, which is kept, and the lease ends", async () => {
  const kind = new FakeKind();
  await using rig = await Rig.make({ kinds: [kind] });
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  kind.fail = (hook) => {
    if (hook === "applied") throw new SubletError("stale_lease", "the row is closed");
  };
  await assert.rejects(worker.report(lease), { code: "stale_lease" });
  assert.equal((await rig.engine.evidence(job)).length, 1);
  const shown = await rig.engine.showJob(job);
  assert.equal(shown.state, "cancelled");
  assert.equal(shown.leases[0]?.state, "cancelled");
  assert.equal((await worker.heartbeat(lease)).get(lease), "stale");
  assert.equal(rig.engine.listWorkers()[0]?.evaluations, 0);
});

Deno.test("a report is judged by the fence after its blobs were looked for", async () => {
  const inner = openMemory();
  let during: (() => Promise<void>) | null = null;
  const cas: Cas = {
    ...bound(inner),
    missing: async (cids) => {
      await during?.();
      return await inner.missing(cids);
    },
  };
  await using rig = await Rig.make({ cas });
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  const cid = await inner.put(blob);
  during = () => rig.clock.advance(TOLERATION_MS);
  await assert.rejects(worker.report(lease, { kind: "fake", value: 1, files: { log: cid } }), {
    code: "stale_lease",
  });
  assert.equal((await rig.engine.evidence(job)).length, 1);
  assert.deepEqual((await rig.notes()).map(({ what }) => what), ["lost"]);
});

function bound(cas: Cas): Cas {
  return {
    has: (cid) => cas.has(cid),
    missing: (cids) => cas.missing(cids),
    put: (data) => cas.put(data),
    get: (cid) => cas.get(cid),
    putStream: (source, limits) => cas.putStream(source, limits),
    getStream: (cid, limits) => cas.getStream(cid, limits),
    putFile: (path) => cas.putFile(path),
    getFile: (cid, path) => cas.getFile(cid, path),
  };
}

Deno.test("a lost job waits again under a larger lease, and is taken once its delay is over", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit();
  const worker = await rig.joined("w");
  const lease = await worker.take();
  await worker.lost(lease, "the place is gone");
  await assert.rejects(worker.lost(lease), { code: "stale_lease" });
  assert.equal(await worker.acquire(), "nothing");
  assert.match(
    (await rig.engine.showJob(job)).waits ?? "",
    /attempt 2 of 3 may start in 1 seconds/,
  );
  await rig.clock.advance(1000);
  assert.ok(await worker.take() > lease);
  assert.deepEqual((await rig.notes()).map(({ what, detail }) => [what, detail]), [
    ["lost", "the place is gone"],
  ]);
});

Deno.test("a job that is lost as often as it may be is dead with its reason, and retry gives it all attempts again", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit({ maxAttempts: 2 });
  const worker = await rig.joined("w");
  for (let attempt = 1; attempt <= 2; attempt++) {
    await worker.lost(await worker.take(), "it crashed");
    await rig.clock.advance(30_000);
    await worker.heartbeat();
  }
  const dead = await rig.engine.showJob(job);
  assert.equal(dead.state, "dead");
  assert.match(dead.reason ?? "", /lost 2 times, the last time because it crashed/);
  assert.deepEqual((await rig.notes()).map(({ what }) => what), ["lost", "dead"]);
  assert.equal((await rig.engine.status()).jobs.dead, 1);
  await rig.engine.retryJob(job);
  await assert.rejects(rig.engine.retryJob(job), { code: "conflict" });
  for (let attempt = 1; attempt <= 2; attempt++) {
    await worker.lost(await worker.take(), "again");
    await rig.clock.advance(30_000);
    await worker.heartbeat();
  }
  assert.equal((await rig.engine.showJob(job)).state, "dead");
  assert.deepEqual((await rig.notes()).map(({ what }) => what), [
    "lost",
    "dead",
    "retried",
    "lost",
    "dead",
  ]);
});

Deno.test("a fault of a worker's machine is none of a job's attempts, ten times", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit({ maxAttempts: 2 });
  const worker = await rig.joined("w");
  const waits: number[] = [];
  const taken = async () => {
    const from = rig.clock.monotonic();
    while (typeof await worker.acquire() === "string") await worker.live(10);
    waits.push(rig.clock.monotonic() - from);
    return (await rig.engine.showJob(job)).lease;
  };
  for (let fault = 1; fault <= 10; fault++) {
    await worker.faulted(await taken());
    const { state, attempts } = await rig.engine.showJob(job);
    assert.deepEqual([state, attempts], ["open", 0]);
  }
  assert.ok(
    (waits.at(-1) ?? 0) >= 150_000,
    "each waits longer than the one before, as lost ones do",
  );
  await worker.faulted(await taken());
  assert.equal((await rig.engine.showJob(job)).attempts, 1);
  await worker.faulted(await taken());
  assert.equal((await rig.engine.showJob(job)).state, "dead");
  await rig.engine.retryJob(job);
  await worker.faulted(await taken());
  assert.equal((await rig.engine.showJob(job)).attempts, 0);
});

Deno.test("retry of a job whose twin is open is a conflict, and of no job at all is not found", async () => {
  await using rig = await Rig.make();
  const { job } = await rig.submit({ key: "same" });
  await rig.engine.cancelJob(job, "no");
  const twin = await rig.submit({ key: "same" });
  assert.ok(twin.created);
  await assert.rejects(rig.engine.retryJob(job), { code: "conflict" });
  await assert.rejects(rig.engine.retryJob(77), { code: "not_found" });
  await assert.rejects(rig.engine.cancelJob(77, "no"), { code: "not_found" });
});
