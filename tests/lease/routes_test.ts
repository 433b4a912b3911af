import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import { answers, message } from "../../lib/lease/mod.ts";
import { SAMPLE, settle } from "./engine_kit.ts";
import { type Answer, HttpWorker, Served, UNIX } from "./routes_kit.ts";

function refused(answer: Answer, status: number, error: string | undefined, detail: RegExp): void {
  assert.equal(answer.status, status, JSON.stringify(answer.json));
  assert.equal(answer.json.error, error);
  assert.match(answer.json.detail, detail);
}

Deno.test("a worker of protocol 7 goes from register to report with the shapes of the protocol", async () => {
  await using served = await Served.make();
  const { job } = await served.rig.submit();
  const worker = await served.worker("gpu-1");
  const registered = await worker.register();
  assert.equal(registered.status, 200);
  assert.deepEqual(registered.json, {
    worker: "gpu-1",
    timing: { renew: 10, grace: 50, toleration: 300 },
    held: [],
    cursor: 0,
  });
  const granted = await worker.acquire();
  assert.equal(granted.status, 200);
  const { lease, job_cid } = granted.json;
  assert.deepEqual(granted.json, { lease, job_cid, handle: null, started_at: null });
  assert.deepEqual(await worker.acquire().then(({ status, json }) => [status, json]), [
    200,
    "nothing",
  ]);
  const handle = { pgid: 77, start_time: 1700000000.25 };
  const started = await worker.call("started", { lease, handle, session_id: null });
  assert.deepEqual([started.status, started.json], [204, null]);
  const beat = await worker.call("heartbeat", {
    leases: { [lease]: null, 99: "s" },
    sample: SAMPLE,
  });
  assert.deepEqual(beat.json, { [lease]: "renewed", 99: "stale" });
  const again = await worker.register();
  assert.deepEqual(again.json.held, [
    { lease, job_cid, handle, started_at: "2023-11-14T22:13:20.000Z" },
  ]);
  for (
    const [call, answer] of [["register", again], ["acquire", granted], [
      "heartbeat",
      beat,
    ]] as const
  ) {
    answers[call].parse(answer.json);
  }
  const body = { lease, request_id: "r", report: { kind: "fake", value: 3, unknown: true } };
  for (let n = 0; n < 2; n++) {
    const reported = await worker.call("report", body);
    assert.deepEqual([reported.status, reported.json], [200, { reported: "fake" }]);
  }
  assert.equal((await served.rig.engine.showJob(job)).state, "reported");
});

Deno.test("a worker says that its job is lost", async () => {
  await using served = await Served.make();
  await served.rig.submit();
  const worker = await served.worker("w");
  await worker.register();
  const lease = await worker.take();
  const body = { lease, reason: "gone" };
  assert.equal((await worker.call("lost", body)).status, 204);
  refused(await worker.call("lost", body), 409, "stale_lease", /lease 1: it is expired/);
});

Deno.test("a worker says that a job is lost for a fault of its machine, which is none of the job's attempts", async () => {
  await using served = await Served.make();
  const { job } = await served.rig.submit({ maxAttempts: 1 });
  const worker = await served.worker("w");
  await worker.register();
  const faulty = new HttpWorker(served, { ...worker.headers, "sublet-host-fault": "1" });
  const lost = { lease: await worker.take(), reason: "no space is left" };
  assert.equal((await faulty.call("lost", lost)).status, 204);
  const { state, attempts } = await served.rig.engine.showJob(job);
  assert.deepEqual([state, attempts], ["open", 0]);
});

Deno.test("what a worker says of itself is bounded, and a long reason is cut", async () => {
  await using served = await Served.make();
  const { job } = await served.rig.submit();
  const worker = await served.worker("w");
  const long = "x".repeat(201);
  const many = Array.from({ length: 1_001 }, (_, number) => `l${number}`);
  for (const over of [{ version: long }, { labels: [long] }, { labels: many }, { runners: many }]) {
    const [field = ""] = Object.keys(over);
    refused(await worker.register(over), 422, undefined, new RegExp(field));
  }
  await worker.register();
  const lease = await worker.take();
  assert.equal((await worker.call("lost", { lease, reason: "é".repeat(70_000) })).status, 204);
  const { leases } = await served.rig.engine.showJob(job);
  assert.ok((leases[0]?.reason?.length ?? 0) > 0 && (leases[0]?.reason?.length ?? 0) <= 65_536);
});

Deno.test("messages are an array, or 204 when there are none", async () => {
  await using served = await Served.make();
  await served.rig.submit();
  const worker = await served.worker("w");
  await worker.register();
  assert.deepEqual((await worker.call("messages", { after: 0, wait: 0 })).json, [
    { kind: "work", id: 0 },
  ]);
  const lease = await worker.take();
  const parked = worker.call("messages", { after: 0, wait: 10 });
  await settle();
  await served.rig.clock.advance(10_000);
  assert.deepEqual(await parked.then(({ status, json }) => [status, json]), [204, null]);
  await served.rig.engine.prompt(1, 4, "hello");
  await served.rig.engine.cancelJob(1, "no");
  await served.rig.engine.drain("w");
  const found = await worker.call("messages", { after: 0 });
  assert.deepEqual(found.json, [
    { kind: "prompt", id: 1, lease, prompt: { id: 4, text: "hello" } },
    { kind: "revoke", id: 2, lease },
    { kind: "drain", id: 3 },
  ]);
  for (const each of found.json) message.parse(each);
  assert.equal((await worker.call("queued", { message: 1, error: null })).status, 204);
  refused(
    await worker.call("queued", { message: 2, error: null }),
    409,
    "not_addressed",
    /no prompt/,
  );
});

Deno.test("a long-poll ends when its client leaves, and when the server closes", async () => {
  await using served = await Served.make();
  const worker = await served.worker("w");
  await worker.register();
  const leaving = new AbortController();
  const gone = worker.call("messages", { after: 0, wait: 25 }, leaving.signal);
  await settle();
  leaving.abort();
  assert.equal((await gone).status, 204);
  const parked = worker.call("messages", { after: 0, wait: 25 });
  await settle();
  await served.rig.engine.close();
  assert.equal((await parked).status, 204);
  const late = await worker.call("messages", { after: 0, wait: 25 });
  assert.equal(late.status, 503);
});

Deno.test("register checks the protocol, then the CAS, then the pool", async () => {
  await using served = await Served.make({ pools: { lab: {}, attic: {} } });
  const worker = await served.worker("w");
  const other = { protocol: 8, pool: "none", cas_probe: cidOf(new Uint8Array([9])), surprise: [] };
  refused(await worker.call("register", other), 426, "protocol", /sublet 9\.9\.9 .* 7.* 8/);
  refused(await worker.register({ ...other, protocol: 7 }), 412, "other_cas", /bafkr4i/);
  refused(await worker.register({ pool: "none" }), 409, "dismissed", /the pools are attic, lab/);
  assert.equal((await worker.register({ pool: "attic" })).status, 200);
});

Deno.test("a token of a pool is for that pool", async () => {
  await using served = await Served.make({ pools: { lab: {}, gpu: {} } });
  const secret = await served.token("w", { access: "worker", pool: "gpu" });
  const worker = new HttpWorker(served, { authorization: `Bearer ${secret}` });
  const answer = await worker.register();
  assert.equal(answer.status, 403);
  assert.match(answer.json.detail, /--pool gpu/);
  assert.equal((await worker.register({ pool: "gpu" })).status, 200);
});

Deno.test("no token, an unknown or revoked one, and another access are refused before anything happens", async () => {
  await using served = await Served.make();
  const calls = [
    "register",
    "acquire",
    "started",
    "heartbeat",
    "report",
    "lost",
    "messages",
    "queued",
    "secrets",
    "send",
    "cli",
  ];
  const revoked = await served.worker("gone");
  await served.revoke("gone");
  const strangers = [{}, { authorization: "Bearer slt_nonsense" }, revoked.headers];
  for (const [index, call] of calls.entries()) {
    for (const headers of strangers) {
      // Each from a place of its own: one that fails again and again is slowed down.
      const peer = { address: `10.0.0.${index}`, unix: false };
      const answer = await new HttpWorker(served, headers, peer).call(call, {});
      assert.equal(answer.status, 401, call);
      assert.equal(answer.headers.get("www-authenticate"), "Bearer");
      assert.equal(answer.json.error, undefined);
    }
  }
  for (const access of ["read", "act", "admin"] as const) {
    const secret = await served.token(access, { access });
    const human = new HttpWorker(served, { authorization: `Bearer ${secret}` });
    for (const call of calls) {
      const answer = await human.call(call, {});
      assert.equal(answer.status, 403, call);
      assert.match(answer.json.detail, /access/);
    }
  }
  const owner = new HttpWorker(served, {}, UNIX);
  assert.equal((await owner.register()).status, 403, "the owner of the socket is no worker");
});

Deno.test("the name of the server's own worker is reserved, but for that on the socket", async () => {
  await using served = await Served.make();
  const authorization = `Bearer ${served.internal()}`;
  const own = new HttpWorker(served, { authorization }, UNIX);
  assert.equal((await own.register()).status, 200);
  assert.equal((await new HttpWorker(served, { authorization }).register()).status, 401);
  await served.rig.db.write((tx) => tx.run("UPDATE tokens SET name = 'serve'"));
  await served.token("other");
  await served.rig.db.write((tx) =>
    tx.run("UPDATE tokens SET name = 'serve' WHERE name = 'other'")
  );
});

Deno.test("a body of another shape is 422 with what is wrong, one that is too large 413", async () => {
  await using served = await Served.make();
  const worker = await served.worker("w");
  await worker.register();
  const bodies: [string, unknown, RegExp][] = [
    ["register", { protocol: 7 }, /pool/],
    ["acquire", { request_id: "", sample: SAMPLE }, /request_id/],
    ["acquire", { request_id: "r", sample: { ...SAMPLE, cpus: 0 } }, /cpus/],
    ["heartbeat", { leases: { "-1": null }, sample: SAMPLE }, /leases/],
    ["heartbeat", { leases: [], sample: SAMPLE }, /leases/],
    ["messages", { after: 0, wait: 26 }, /wait/],
    ["messages", { after: -1, wait: 0 }, /after/],
    ["report", { lease: 1, request_id: "r", report: "text" }, /report/],
    ["send", { repo: 1, revisions: ["HEAD"], have: [] }, /revisions/],
    ["send", { repo: 1, revisions: [], have: Array(65).fill("a".repeat(40)) }, /have/],
    ["queued", {}, /message/],
  ];
  for (const [call, body, detail] of bodies) {
    const answer = await worker.call(call, body);
    assert.equal(answer.status, 422, `${call} ${JSON.stringify(answer.json)}`);
    assert.equal(answer.json.error, undefined);
    assert.match(answer.json.detail, detail);
  }
  assert.equal((await worker.call("acquire", "{nonsense")).status, 400);
  const large = { lease: 1, reason: "x".repeat(1024 * 1024) };
  assert.equal((await worker.call("lost", large)).status, 413);
  const huge = `{"lease": 1, "request_id": "r", "report": {"kind": "${"x".repeat(17_000_000)}"}}`;
  assert.equal((await worker.call("report", huge)).status, 413);
});

Deno.test("a report is refused with the name of what is wrong, and changes nothing", async () => {
  await using served = await Served.make();
  await served.rig.submit();
  const worker = await served.worker("w");
  await worker.register();
  const lease = await worker.take();
  const cid = await served.rig.cas.put(new TextEncoder().encode("log"));
  const absent = cidOf(new TextEncoder().encode("never put"));
  const report = (files: Record<string, string>, id = lease) =>
    worker.call("report", {
      lease: id,
      request_id: "r",
      report: { kind: "fake", value: 1, files },
    });
  for (const path of ["../../etc/cron.d/x", "/abs", "a/../../b"]) {
    refused(await report({ [path]: cid }), 400, "unsafe_path", /is refused/);
  }
  refused(await report({ log: absent }), 409, "missing_blobs", new RegExp(absent));
  refused(await report({ log: cid }, lease + 1), 409, "stale_lease", /no such lease/);
  const other = await worker.call("report", { lease, request_id: "r", report: { kind: "other" } });
  assert.equal(other.status, 422);
  assert.deepEqual(await served.rig.notes(), []);
  assert.equal((await report({ log: cid })).status, 200);
});

Deno.test("two processes of one token: the second is told so, and the first goes on", async () => {
  await using served = await Served.make();
  await served.rig.submit();
  const first = await served.worker("w", { "sublet-incarnation": "one" });
  await first.register();
  const lease = await first.take();
  const second = new HttpWorker(served, { ...first.headers, "sublet-incarnation": "two" });
  const taken = await second.register();
  refused(taken, 409, "superseded", /another process already works as w/);
  assert.equal(taken.headers.get("retry-after"), "50");
  refused(await second.acquire(), 409, "unknown_worker", /register/);
  const next = new HttpWorker(served, {
    ...first.headers,
    "sublet-incarnation": "three",
    "sublet-succeeds": "one",
  });
  assert.deepEqual(
    (await next.register()).json.held.map((grant: { lease: number }) => grant.lease),
    [
      lease,
    ],
  );
  refused(await first.acquire(), 409, "superseded", /another process/);
  const long = new HttpWorker(served, { ...first.headers, "sublet-incarnation": "x".repeat(101) });
  assert.equal((await long.register()).status, 400);
});

Deno.test("a worker that leaves makes room for another process of its token", async () => {
  await using served = await Served.make();
  const first = await served.worker("w", { "sublet-incarnation": "one" });
  await first.register();
  assert.equal((await first.call("leave", {})).status, 204);
  const second = new HttpWorker(served, { ...first.headers, "sublet-incarnation": "two" });
  assert.equal((await second.register()).status, 200);
  const unnamed = await served.worker("v");
  await unnamed.register();
  refused(await unnamed.call("leave", {}), 400, undefined, /which one it is/);
});

Deno.test("a worker for one lease is told to drain after it", async () => {
  await using served = await Served.make({ pools: { lab: {} } });
  await served.rig.submit();
  await served.rig.submit();
  const worker = await served.worker("w", { "sublet-incarnation": "a", "sublet-once": "1" });
  await worker.register();
  await worker.take();
  assert.equal((await worker.acquire()).json, "draining");
});

Deno.test("versions of a repo go only to a worker with a live lease on a job of it", async () => {
  await using served = await Served.make();
  await served.rig.submit({ repo: 3 });
  const worker = await served.worker("w");
  await worker.register();
  const body = { repo: 3, revisions: ["a".repeat(40)], have: ["b".repeat(40)], wait: 5 };
  refused(await worker.call("send", body), 409, "not_sent", /no live lease on a job of repo 3/);
  const lease = await worker.take();
  const asked: unknown[] = [];
  const cid = cidOf(new Uint8Array([1]));
  served.send = (caller, ...rest) => {
    asked.push([caller.name, ...rest.slice(0, 4)]);
    return Promise.resolve([cid]);
  };
  assert.deepEqual((await worker.call("send", body)).json, [cid]);
  assert.deepEqual(asked, [["w", 3, body.revisions, body.have, 5]]);
  refused(await worker.call("send", { ...body, repo: 4 }), 409, "not_sent", /repo 4/);
  served.send = () => Promise.resolve(null);
  assert.deepEqual(await worker.call("send", body).then(({ status }) => status), 204);
  served.send = () => Promise.resolve([]);
  assert.deepEqual((await worker.call("send", body)).json, []);
  served.send = () => Promise.reject(new SubletError("not_found", "no such commit"));
  refused(await worker.call("send", body), 409, "not_sent", /no such commit/);
  served.send = () => Promise.reject(new SubletError("unavailable", "the CAS is down"));
  assert.equal((await worker.call("send", body)).status, 503);
  served.send = () => Promise.reject(new TypeError("a fault"));
  assert.equal((await worker.call("send", body)).status, 500);
  await worker.call("lost", { lease, reason: "x" });
  refused(await worker.call("send", body), 409, "not_sent", /no live lease/);
});

Deno.test("secrets and relayed commands are for agents: any other lease is stale to them", async () => {
  await using served = await Served.make();
  await served.rig.submit();
  const worker = await served.worker("w");
  await worker.register();
  const lease = await worker.take();
  refused(await worker.call("secrets", { lease }), 409, "stale_lease", /no agent/);
  refused(
    await worker.call("cli", { lease, argv: ["sql"], stdin: null }),
    409,
    "stale_lease",
    /no agent/,
  );
});

Deno.test("a fault of the server's own is 500 and says nothing of it", async () => {
  await using served = await Served.make();
  await served.rig.submit();
  const worker = await served.worker("w");
  await worker.register();
  const lease = await worker.take();
  const kind = served.rig.kinds[0];
  assert.ok(kind);
  kind.fail = () => {
    throw new TypeError("secret detail");
  };
  const answer = await worker.call("report", {
    lease,
    request_id: "r",
    report: { kind: "fake", value: 1 },
  });
  assert.equal(answer.status, 500);
  assert.doesNotMatch(JSON.stringify(answer.json), /secret detail/);
});
