/** @module Tests of the HTTP API on a real engine: what each route takes and answers. */

import assert from "node:assert/strict";
import { until } from "../kit/mod.ts";
import { Repo, sure, TOML } from "../job/campaign_kit.ts";
import { ApiKit, HandWorker, log, run } from "./api_kit.ts";

Deno.test("POST /v1/campaigns registers a checkout, and GET shows it by id and by name", async () => {
  await using api = await ApiKit.make();
  const { status, json } = await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  assert.deepEqual([status, json.id, json.name, json.path], [200, 1, "demo", api.kit.repo.path]);
  for (const key of ["1", "demo"]) {
    const shown = await api.owner("GET", `/v1/campaigns/${key}`);
    assert.equal(shown.json.config.evaluate[0], "python3");
    assert.equal(shown.json.evaluations.waiting, 0);
  }
  assert.equal((await api.owner("GET", "/v1/campaigns/2")).status, 404);
  assert.equal((await api.owner("GET", "/v1/campaigns/nope")).json.code, "not_found");
});

Deno.test("GET /v1/campaigns goes a page at a time", async () => {
  await using api = await ApiKit.make();
  for (const name of ["a", "b", "c"]) {
    const repo = await Repo.make(api.kit.dir.join(name), TOML.replace("demo", name));
    await api.owner("POST", "/v1/campaigns", { path: repo.path });
  }
  const first = (await api.owner("GET", "/v1/campaigns?limit=2")).json;
  assert.deepEqual(first.campaigns.map((c: { name: string }) => c.name), ["a", "b"]);
  const rest = (await api.owner("GET", `/v1/campaigns?limit=2&after=${first.next}`)).json;
  assert.deepEqual([rest.campaigns.length, rest.next], [1, null]);
});

Deno.test("a campaign's file with mistakes is refused with a line for each", async () => {
  await using api = await ApiKit.make();
  await api.kit.repo.write("sublet.toml", "nam = 1\n");
  const { status, json } = await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  assert.deepEqual([status, json.code], [400, "invalid_request"]);
  assert.match(json.message, /nam = 1: there is no such key; did you mean 'name'\?/);
});

Deno.test("POST /v1/evaluations queues one for each revision, by campaign or by a path in it", async () => {
  await using api = await ApiKit.make();
  await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  await Deno.mkdir(api.kit.repo.path + "/sub");
  for (
    const which of [{ campaign: "demo" }, { campaign: 1 }, { path: api.kit.repo.path + "/sub" }]
  ) {
    const body = { ...which, revisions: ["HEAD", "main"] };
    const { status, json } = await api.owner("POST", "/v1/evaluations", body);
    assert.deepEqual([status, json.evaluations.length], [201, 2]);
    assert.equal(json.evaluations[0].campaign, "demo");
  }
  const jobs = (await api.owner("GET", "/v1/jobs")).json.jobs;
  assert.deepEqual(jobs.map((job: { key: string }) => job.key), ["6", "5", "4", "3", "2", "1"]);
});

const BAD_REQUESTS: [string, object, number, string][] = [
  ["no campaign and no path", { revisions: ["HEAD"] }, 422, "invalid_body"],
  ["both", { campaign: "demo", path: "/x", revisions: ["HEAD"] }, 422, "invalid_body"],
  ["a relative path", { path: "x", revisions: ["HEAD"] }, 422, "invalid_body"],
  ["no revisions", { campaign: "demo", revisions: [] }, 422, "invalid_body"],
  ["repeats of 0", { campaign: "demo", revisions: ["HEAD"], repeats: 0 }, 422, "invalid_body"],
  ["an unknown revision", { campaign: "demo", revisions: ["nope"] }, 404, "not_found"],
  [
    "a revision that is an option",
    { campaign: "demo", revisions: ["--all"] },
    400,
    "invalid_request",
  ],
  ["an unknown campaign", { campaign: "nope", revisions: ["HEAD"] }, 404, "not_found"],
  ["an unknown pool", { campaign: "demo", revisions: ["HEAD"], pool: "nope" }, 404, "not_found"],
];

Deno.test("POST /v1/evaluations refuses what it cannot do, and queues nothing", async (t) => {
  await using api = await ApiKit.make();
  await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  for (const [what, body, status, code] of BAD_REQUESTS) {
    await t.step(what, async () => {
      const refused = await api.owner("POST", "/v1/evaluations", body);
      assert.deepEqual([refused.status, refused.json.code], [status, code], refused.json.message);
    });
  }
  assert.deepEqual((await api.owner("GET", "/v1/jobs")).json.jobs, []);
});

Deno.test("an evaluation goes from its request to its result through a worker", async () => {
  await using api = await ApiKit.withEvaluations(1);
  const worker = new HandWorker(api);
  await worker.register();
  const waiting = (await api.owner("GET", "/v1/evaluations/1")).json;
  assert.deepEqual([waiting.state, waiting.job], ["waiting", 1]);
  const { lease } = await worker.start();
  assert.equal((await api.owner("GET", "/v1/evaluations/1")).json.state, "running");
  const files = { "candidate-0/eval.stdout": await log(api, "METRIC score=3\n") };
  await worker.report(lease, { samples: [run(3)], files });
  const done = (await api.owner("GET", "/v1/evaluations/1")).json;
  assert.deepEqual(
    [done.state, done.metrics, done.worker, done.lease, done.attempts, done.seconds, done.files],
    ["measured", { score: 3 }, "w1", lease, 1, 1.5, files],
  );
  const job = (await api.owner("GET", "/v1/jobs/1")).json;
  assert.deepEqual([job.state, job.leases.length, job.evaluation.state], [
    "reported",
    1,
    "measured",
  ]);
  assert.deepEqual(
    job.events.map(({ event }: { event: string }) => event),
    ["queued", "acquired", "running", "reported"],
  );
});

Deno.test("GET /v1/evaluations/{id}?wait= answers when the evaluation ends", async () => {
  await using api = await ApiKit.withEvaluations(1);
  const worker = new HandWorker(api);
  await worker.register();
  let answered = false;
  const waiting = api.owner("GET", "/v1/evaluations/1?wait=25").then((answer) => {
    answered = true;
    return answer;
  });
  const { lease } = await worker.start();
  assert.equal(answered, false);
  await worker.report(lease, { samples: [run(1)] });
  assert.equal((await waiting).json.state, "measured");
});

Deno.test("whoever waits is answered at once when the server stops or the caller leaves", async () => {
  await using api = await ApiKit.withEvaluations(1);
  const caller = new AbortController();
  const left = api.owner("GET", "/v1/evaluations/1?wait=25", undefined, { signal: caller.signal });
  const stays = api.owner("GET", "/v1/evaluations/1?wait=25");
  caller.abort();
  assert.equal((await left).json.state, "waiting");
  api.closing.abort();
  assert.equal((await stays).json.state, "waiting");
});

Deno.test("GET /v1/evaluations filters by campaign and state, newest first, a page at a time", async () => {
  await using api = await ApiKit.withEvaluations(3);
  const worker = new HandWorker(api);
  await worker.register();
  const { lease } = await worker.start();
  await worker.report(lease, { samples: [run(1)] });
  const ids = async (query: string) => {
    const { json } = await api.owner("GET", `/v1/evaluations${query}`);
    return [...json.evaluations.map((e: { evaluation: number }) => e.evaluation), json.next];
  };
  assert.deepEqual(await ids(""), [3, 2, 1, null]);
  assert.deepEqual(await ids("?state=measured"), [1, null]);
  assert.deepEqual(await ids("?campaign=demo&state=waiting&limit=1"), [3, 3]);
  assert.deepEqual(await ids("?campaign=1&limit=2&after=3"), [2, 1, 1]);
  assert.equal((await api.owner("GET", "/v1/evaluations?campaign=nope")).status, 404);
});

Deno.test("a cancel ends a queued job at once, with who asked as the reason", async () => {
  await using api = await ApiKit.withEvaluations(1);
  const { json } = await api.owner("POST", "/v1/jobs/1/cancel");
  assert.deepEqual(json, { job: 1, outcome: "cancelled" });
  const done = (await api.owner("GET", "/v1/evaluations/1")).json;
  assert.deepEqual([done.state, done.error, done.attempts], ["cancelled", "cancelled by owner", 0]);
  assert.equal((await api.owner("POST", "/v1/jobs/1/cancel", {})).json.outcome, "ended");
  assert.equal((await api.owner("POST", "/v1/jobs/9/cancel", {})).status, 404);
});

Deno.test("a cancelled job that runs still reports, and ends cancelled though it succeeded", async () => {
  await using api = await ApiKit.withEvaluations(1);
  const worker = new HandWorker(api);
  await worker.register();
  const { lease } = await worker.start();
  const { json } = await api.owner("POST", "/v1/jobs/1/cancel", { reason: "not needed" });
  assert.equal(json.outcome, "revoked");
  await worker.report(lease, { samples: [run(1)] });
  const job = (await api.owner("GET", "/v1/jobs/1")).json;
  assert.deepEqual(
    [job.state, job.evaluation.state, job.evaluation.error],
    ["cancelled", "cancelled", "not needed"],
  );
});

Deno.test("a retry queues a cancelled job again, and its evaluation waits again", async () => {
  await using api = await ApiKit.withEvaluations(1);
  await api.owner("POST", "/v1/jobs/1/cancel", {});
  const { status, json } = await api.owner("POST", "/v1/jobs/1/retry");
  assert.deepEqual([status, json.job], [200, 1]);
  const again = (await api.owner("GET", "/v1/evaluations/1")).json;
  assert.deepEqual([again.state, again.error, again.ended_at], ["waiting", null, null]);
  const worker = new HandWorker(api);
  await worker.register();
  const { lease } = await worker.start();
  assert.equal(lease, json.lease);
  await worker.report(lease, { samples: [run(1)] });
  assert.equal((await api.owner("GET", "/v1/evaluations/1")).json.state, "measured");
  assert.equal((await api.owner("POST", "/v1/jobs/1/retry")).json.code, "conflict");
});

Deno.test("a report that comes too late is shown as evidence and changes nothing", async () => {
  await using api = await ApiKit.withEvaluations(1);
  const [old, other] = [new HandWorker(api, "old"), new HandWorker(api, "other")];
  await old.register();
  await other.register();
  const { lease } = await old.start();
  await api.engine.lost(old.caller, lease, "its disk is full");
  const retaken = await until("the job may be taken again", async () => {
    const grant = await api.engine.acquire(other.caller, crypto.randomUUID(), {
      at: "2026-01-01T00:00:00Z",
      cpus: 4,
      load1: 0,
      memory_available: 8e9,
      disk_free: 1e11,
    });
    return typeof grant === "object" ? grant : null;
  });
  assert.ok(retaken.lease > lease);
  await assert.rejects(old.report(lease, { samples: [run(9)] }), { code: "stale_lease" });
  await other.report(retaken.lease, { samples: [run(1)] });
  const job = (await api.owner("GET", "/v1/jobs/1")).json;
  assert.deepEqual([job.evaluation.metrics, job.evaluation.worker], [{ score: 1 }, "other"]);
  assert.equal(job.evidence.length, 1);
  assert.deepEqual(job.evidence[0].report.samples[0].metrics, { score: 9 });
  assert.match(job.leases[0].reason, /disk is full/);
});

Deno.test("a job's log files are listed, and come from the CAS by the report's addresses", async () => {
  await using api = await ApiKit.withEvaluations(2);
  assert.deepEqual((await api.owner("GET", "/v1/jobs/1/logs")).json, { files: {} });
  const worker = new HandWorker(api);
  await worker.register();
  const { lease } = await worker.start();
  const files = {
    "candidate-0/ev al.stdout": await log(api, "<script>hi</script>"),
    "two\nlines": await log(api, "odd name"),
  };
  await worker.report(lease, { samples: [run(1)], files });
  assert.deepEqual((await api.owner("GET", "/v1/jobs/1/logs")).json, { files });
  const response = await api.raw("/v1/jobs/1/logs/candidate-0/ev%20al.stdout");
  assert.equal(await response.text(), "<script>hi</script>");
  assert.equal(await (await api.raw("/v1/jobs/1/logs/two%0Alines")).text(), "odd name");
  assert.equal(response.headers.get("content-type"), "application/octet-stream");
  assert.equal(response.headers.get("x-content-type-options"), "nosniff");
  for (
    const path of [
      "/v1/jobs/1/logs/none",
      "/v1/jobs/2/logs/candidate-0/ev%20al.stdout",
      "/v1/jobs/9/logs",
      "/v1/jobs/1/logs/constructor",
    ]
  ) {
    assert.equal((await api.owner("GET", path)).status, 404, path);
  }
});

Deno.test("GET /v1/workers and /v1/pools show who is there and what is free", async () => {
  await using api = await ApiKit.withEvaluations(1);
  const worker = new HandWorker(api);
  await worker.register();
  await worker.start();
  const { workers } = (await api.owner("GET", "/v1/workers")).json;
  assert.deepEqual(
    [workers[0].worker, workers[0].pool, workers[0].evaluations, workers[0].reachable],
    ["w1", "lab", 1, true],
  );
  const { pools } = (await api.owner("GET", "/v1/pools")).json;
  assert.deepEqual(
    pools.map((pool: { pool: string; evaluations: object; agents: object }) => [
      pool.pool,
      pool.evaluations,
      pool.agents,
    ]),
    [
      ["lab", { used: 1, total: 3 }, { used: 0, total: 1 }],
      ["serve", { used: 0, total: 0 }, { used: 0, total: null }],
    ],
  );
});

Deno.test("a worker is paused, resumed and drained by the API", async () => {
  await using api = await ApiKit.make();
  await new HandWorker(api).register();
  const shown = async () => (await api.owner("GET", "/v1/workers")).json.workers[0];
  assert.equal((await api.owner("POST", "/v1/workers/w1/pause", { reason: "upkeep" })).status, 204);
  assert.equal((await shown()).no_lease, "paused");
  await api.owner("POST", "/v1/workers/w1/resume");
  assert.equal((await shown()).paused_at, null);
  await api.owner("POST", "/v1/workers/w1/drain", {});
  assert.equal((await shown()).no_lease, "draining");
  assert.equal((await api.owner("DELETE", "/v1/workers/w1")).json.code, "conflict");
  assert.equal((await api.owner("POST", "/v1/workers/w9/pause", {})).status, 404);
});

Deno.test("GET /v1/status says how the server stands and why the oldest job waits", async () => {
  await using api = await ApiKit.withEvaluations(2);
  const { json } = await api.owner("GET", "/v1/status");
  assert.deepEqual(
    [json.server.version, json.server.pid, json.server.urls],
    ["9.9.9", 42, ["http://127.0.0.1:1"]],
  );
  assert.ok(json.server.uptime_seconds >= 5);
  assert.deepEqual([json.jobs.queued, json.jobs.running], [2, 0]);
  assert.match(json.jobs.waits, /no worker has registered/);
});

Deno.test("tokens are made, listed without their secrets, and revoked", async () => {
  await using api = await ApiKit.make();
  const made = await api.owner("POST", "/v1/tokens", {
    name: "gpu-1",
    pool: "lab",
    expires_at: "2100-01-01T00:00:00Z",
  });
  assert.match(made.json.secret, /^slt_/);
  const { tokens } = (await api.owner("GET", "/v1/tokens")).json;
  assert.deepEqual(
    [tokens[0].name, tokens[0].access, tokens[0].pool, tokens[0].expires_at],
    ["gpu-1", "worker", "lab", "2100-01-01T00:00:00.000Z"],
  );
  assert.ok(!JSON.stringify(tokens).includes("slt_"));
  assert.equal((await api.owner("POST", "/v1/tokens", { name: "gpu-1" })).json.code, "conflict");
  assert.equal(
    (await api.owner("POST", "/v1/tokens", { name: "../x" })).json.code,
    "invalid_request",
  );
  assert.equal((await api.owner("DELETE", "/v1/tokens/gpu-1")).status, 204);
  assert.equal((await api.owner("DELETE", "/v1/tokens/gpu-1")).status, 404);
});

Deno.test("a request is refused that is too long, no JSON, or out of bounds", async () => {
  await using api = await ApiKit.make();
  const huge = { path: "/" + "x".repeat(2 * 1024 * 1024) };
  assert.equal((await api.owner("POST", "/v1/campaigns", huge)).status, 413);
  const bad = await api.owner("POST", "/v1/campaigns", undefined, { body: "{" });
  assert.deepEqual([bad.status, bad.json.code], [400, "invalid_request"]);
  for (
    const path of [
      "/v1/jobs?limit=0",
      "/v1/jobs?limit=1001",
      "/v1/jobs?after=x",
      "/v1/jobs?state=x",
      "/v1/jobs/x",
      "/v1/jobs/0",
      "/v1/evaluations/1?wait=26",
      "/v1/evaluations/1?wait=-1",
    ]
  ) {
    const refused = await api.owner("GET", path);
    assert.deepEqual([refused.status, refused.json.code], [400, "invalid_request"], path);
  }
  const nul = "\0";
  const odd: [string, object][] = [
    ["/v1/campaigns", { path: `/a${nul}b` }],
    ["/v1/campaigns", { path: "/" + "x/".repeat(2000) }],
    ["/v1/evaluations", { path: `/a${nul}b`, revisions: ["HEAD"] }],
    ["/v1/evaluations", { campaign: `a${nul}b`, revisions: ["HEAD"] }],
    ["/v1/evaluations", { campaign: "a", revisions: ["HEAD"], pool: nul }],
    ["/v1/tokens", { name: nul }],
    ["/v1/workers/%00/pause", {}],
  ];
  for (const [path, body] of odd) {
    const { status } = await api.owner("POST", path, body);
    assert.ok(
      status >= 400 && status < 500,
      `${path} ${JSON.stringify(body).slice(0, 80)}: ${status}`,
    );
  }
  assert.equal((await api.owner("POST", "/v1/campaigns")).json.code, "invalid_request");
  const unknown = await api.owner("GET", "/v1/nope");
  assert.deepEqual([unknown.status, unknown.json.code], [404, "not_found"]);
});

Deno.test("GET /v1/healthz and the document need no token, everything else does", async () => {
  await using api = await ApiKit.make();
  assert.deepEqual((await api.as(null, "GET", "/v1/healthz")).json, {
    status: "ok",
    version: "9.9.9",
  });
  assert.equal((await api.as(null, "GET", "/v1/openapi.json")).status, 200);
  const open = api.routes.filter(({ access }) => access === null).map(({ path }) => path);
  assert.deepEqual(open, ["/v1/healthz", "/v1/openapi.json"]);
  for (const { path, method, access } of api.routes) {
    if (access === null) continue;
    const at = path.replace(/\{(\w+)\+?\}/g, "1");
    assert.equal((await api.as(null, method.toUpperCase(), at)).status, 401, `${method} ${path}`);
  }
});

Deno.test("each route takes its access and those above it, and a worker's token takes none", async () => {
  await using api = await ApiKit.make();
  const levels = ["read", "act", "admin"] as const;
  for (const { path, method, access } of api.routes) {
    if (access === null) continue;
    const at = path.replace(/\{(\w+)\+?\}/g, "1");
    for (const has of [...levels, "worker"] as const) {
      const { status } = await api.as(has, method.toUpperCase(), at);
      const may: boolean = has !== "worker" &&
        levels.indexOf(has) >= levels.indexOf(access as "read");
      assert.equal(status === 403, !may, `${has} ${method} ${path}: ${status}`);
    }
  }
  const needs = (path: string, method = "get") =>
    sure(api.routes.find((each) => each.path === path && each.method === method)).access;
  assert.deepEqual(
    [needs("/v1/status"), needs("/v1/evaluations", "post"), needs("/v1/tokens")],
    ["read", "act", "admin"],
  );
});

Deno.test("GET /v1/jobs filters by campaign, by name or id, and by kind", async () => {
  await using api = await ApiKit.withEvaluations(2);
  const keys = async (query: string) => {
    const { json } = await api.owner("GET", `/v1/jobs?${query}`);
    return json.jobs.map((job: { key: string }) => job.key);
  };
  assert.deepEqual(await keys("campaign=demo"), ["2", "1"]);
  assert.deepEqual(await keys("campaign=1&kind=evaluation&after=2"), ["1"]);
  assert.deepEqual(await keys("kind=agent"), []);
  assert.equal((await api.owner("GET", "/v1/jobs?campaign=nope")).json.code, "not_found");
});

Deno.test("a request that is made again under its dedup key makes nothing more", async () => {
  await using api = await ApiKit.make();
  await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  const ask = (more: object = {}) =>
    api.owner("POST", "/v1/evaluations", {
      campaign: "demo",
      revisions: ["HEAD", "main"],
      dedup: "nightly-1",
      ...more,
    });
  const ids = ({ json }: { json: { evaluations: { evaluation: number }[] } }) =>
    json.evaluations.map(({ evaluation }) => evaluation);
  assert.deepEqual(ids(await ask()), [1, 2]);
  assert.deepEqual(ids(await ask()), [1, 2]);
  assert.deepEqual(ids(await ask({ dedup: "nightly-2" })), [3, 4]);
  assert.equal((await ask({ revisions: ["HEAD"] })).json.code, "conflict");
  assert.equal((await ask({ repeats: 3 })).json.code, "conflict");
  assert.equal((await api.owner("GET", "/v1/jobs")).json.jobs.length, 4);
});
