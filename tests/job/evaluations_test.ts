/** @module Tests of requesting evaluations: what becomes a row, a job and a submission, and what survives a crash. */

import assert from "node:assert/strict";
import { openMemory, readManifest } from "../../lib/cas/mod.ts";
import { evaluationJob } from "../../lib/job/mod.ts";
import { insertEvaluation } from "../../lib/job/evaluation_store_requests.ts";
import { candidateOf } from "../../lib/job/campaign_store.ts";
import { SubletError, systemClock } from "../../lib/home/mod.ts";
import { until } from "../kit/mod.ts";
import { Kit, Repo, sure, TOML } from "./campaign_kit.ts";

async function jobOf(kit: Kit, index: number) {
  const bytes = await kit.cas.get(sure(kit.queue.jobs[index]).jobCid);
  return JSON.parse(new TextDecoder().decode(sure(bytes)));
}

Deno.test("a checkout is registered from its file, and again with the file's new form", async () => {
  await using kit = await Kit.make();
  await Deno.mkdir(kit.repo.path + "/sub");
  const first = await kit.evaluations.register(kit.repo.path + "/sub");
  assert.deepEqual([first.id, first.name, first.path], [1, "demo", kit.repo.path]);
  await kit.repo.write("sublet.toml", TOML.replace("demo", "other").replace("= 30", "= 60"));
  const again = await kit.evaluations.register(kit.repo.path);
  assert.deepEqual([again.id, again.name, again.config.evaluate_timeout], [1, "other", 60]);
  assert.deepEqual((await kit.evaluations.campaigns(0, 10)).map(({ name }) => name), ["other"]);
});

Deno.test("the stored copy of a campaign's file is what runs", async () => {
  await using kit = await Kit.make();
  await kit.evaluations.register(kit.repo.path);
  await kit.repo.write("sublet.toml", TOML.replace("= 30", "= 60"));
  await kit.evaluations.request({ campaign: "demo" }, { revisions: ["HEAD"] });
  assert.equal((await jobOf(kit, 0)).timeout, 30);
});

Deno.test("what is no checkout, has no file or a name that is taken is refused", async () => {
  await using kit = await Kit.make();
  await kit.evaluations.register(kit.repo.path);
  await assert.rejects(kit.evaluations.register(kit.dir.path), { code: "not_found" });
  const other = await Repo.make(kit.dir.join("other"));
  await assert.rejects(kit.evaluations.register(other.path), {
    code: "conflict",
    message: new RegExp(`demo is at ${kit.repo.path}`),
  });
  await other.write("sublet.toml", "name = 1");
  await assert.rejects(kit.evaluations.register(other.path), { code: "invalid_request" });
  await Deno.remove(other.path + "/sublet.toml");
  await assert.rejects(kit.evaluations.register(other.path), { code: "not_found" });
});

Deno.test("a checkout that was moved keeps its campaign", async () => {
  await using kit = await Kit.make();
  const { id } = await kit.evaluations.register(kit.repo.path);
  await Deno.rename(kit.repo.path, kit.dir.join("moved"));
  const moved = await kit.evaluations.register(kit.dir.join("moved"));
  assert.deepEqual([moved.id, moved.path], [id, kit.dir.join("moved")]);
});

Deno.test("a request makes a row, a job in the CAS and a submission for each revision, in order", async () => {
  await using kit = await Kit.make();
  const first = await kit.repo.git("rev-parse", "HEAD");
  const second = await kit.repo.commit("second version");
  await kit.repo.git("tag", "v2");
  await kit.evaluations.register(kit.repo.path);
  const asked = await kit.evaluations.request({ path: kit.repo.path }, {
    revisions: ["v2", first.slice(0, 10)],
    pool: "gpu",
    priority: 5,
  });
  assert.deepEqual(asked.map((e) => [e.evaluation, e.job, e.revision, e.subject, e.state]), [
    [1, 100, second, "second version", "waiting"],
    [2, 101, first, "first version", "waiting"],
  ]);
  const { jobCid, ...submission } = sure(kit.queue.jobs[1]);
  assert.deepEqual(submission, {
    id: 101,
    kind: "evaluation",
    key: "2",
    requires: { runner: "process", pool: "gpu" },
    campaign: 1,
    priority: 5,
    repo: 1,
    timeoutSeconds: 3660,
  });
  assert.ok(await kit.cas.has(jobCid));
  assert.deepEqual(await jobOf(kit, 1), {
    kind: "evaluation",
    evaluation: 2,
    candidate: 2,
    run: null,
    runner: "process",
    artifact: {
      vcs: { provider: "git" },
      repo: 1,
      revision: first,
      links: {},
      workspace: null,
      history: [],
    },
    place: "projects/1/measure/2-e2",
    command: ["python3", "evaluate.py"],
    timeout: 30,
    required: ["score"],
    bar: null,
    repeats: 1,
  });
});

Deno.test("a revision asked for again is the same candidate and another evaluation", async () => {
  await using kit = await Kit.make();
  await kit.evaluations.register(kit.repo.path);
  for (let i = 0; i < 2; i++) {
    await kit.evaluations.request({ campaign: 1 }, { revisions: ["HEAD"] });
  }
  const jobs = [await jobOf(kit, 0), await jobOf(kit, 1)];
  assert.deepEqual(jobs.map(({ evaluation, candidate }) => [evaluation, candidate]), [[1, 1], [
    2,
    1,
  ]]);
});

Deno.test("against another revision, the job has it as its bar, and the metrics' repeats", async () => {
  await using kit = await Kit.make(`${TOML}repeats = 3\n`);
  const first = await kit.repo.git("rev-parse", "HEAD");
  await kit.repo.commit("second version");
  await kit.evaluations.register(kit.repo.path);
  const [asked] = await kit.evaluations.request({ campaign: "demo" }, {
    revisions: ["HEAD"],
    against: "HEAD~1",
  });
  assert.deepEqual([asked?.against, asked?.repeats], [first, 3]);
  const job = evaluationJob.parse(await jobOf(kit, 0));
  assert.deepEqual([job.repeats, job.bar?.artifact.revision], [3, first]);
  assert.notEqual(job.bar?.candidate, job.candidate);
  await kit.evaluations.request({ campaign: "demo" }, { revisions: ["HEAD"] });
  assert.equal((await jobOf(kit, 1)).repeats, 1, "alone, one run is enough");
});

Deno.test("links go into the CAS as they are at the request, with paths from the checkout's root", async () => {
  const toml = TOML.replace("[[metrics]]", 'link = ["data", "one.bin", "absent"]\n[[metrics]]');
  await using kit = await Kit.make(toml);
  await kit.repo.write(".gitignore", "data\none.bin\n");
  await kit.repo.write("data/sub/a.txt", "abc");
  await kit.repo.write("one.bin", "1");
  await kit.evaluations.register(kit.repo.path);
  await kit.evaluations.request({ campaign: "demo" }, { revisions: ["HEAD"] });
  await kit.repo.write("data/sub/a.txt", "changed");
  await kit.evaluations.request({ campaign: "demo" }, { revisions: ["HEAD"] });
  const [before, after] = [await jobOf(kit, 0), await jobOf(kit, 1)];
  assert.deepEqual(Object.keys(before.artifact.links), ["data", "one.bin"]);
  const { entries } = await readManifest(kit.cas, before.artifact.links.data);
  assert.deepEqual(entries.map(({ path }) => path), ["data/sub/a.txt"]);
  const file = await readManifest(kit.cas, before.artifact.links["one.bin"]);
  assert.deepEqual(file.entries.map(({ path, size }) => [path, size]), [["one.bin", 1]]);
  assert.equal(before.artifact.links["one.bin"], after.artifact.links["one.bin"]);
  assert.notEqual(before.artifact.links.data, after.artifact.links.data);
});

Deno.test("an edit of the command's script or of linked data is another evaluator", async () => {
  const toml = TOML.replace("[[metrics]]", 'link = ["data"]\n[[metrics]]');
  await using kit = await Kit.make(toml);
  await kit.repo.write(".gitignore", "data\n");
  await kit.repo.write("data/x", "1");
  await kit.repo.commit("ignores data");
  const registered = await kit.evaluations.register(kit.repo.path);
  const ask = async (revision: string) => {
    const [asked] = await kit.evaluations.request({ campaign: 1 }, { revisions: [revision] });
    return sure(asked).evaluator;
  };
  const base = await ask("HEAD");
  assert.match(base, /^[0-9a-f]{16}$/);
  assert.equal(base, registered.evaluator);
  await kit.repo.write("model.py", "x = 1\n");
  await kit.repo.commit("another model");
  assert.equal(await ask("HEAD"), base, "the candidate's own code is not the evaluator");
  await kit.repo.write("evaluate.py", "print('METRIC score=9')\n");
  await kit.repo.commit("another script");
  assert.notEqual(await ask("HEAD"), base);
  assert.equal(await ask("HEAD~1"), base);
  await kit.repo.write("data/x", "2");
  assert.notEqual(await ask("HEAD~1"), base);
});

Deno.test("a request that names an unknown revision or campaign makes nothing", async () => {
  await using kit = await Kit.make();
  await kit.evaluations.register(kit.repo.path);
  const wrong: [Parameters<typeof kit.evaluations.request>, string][] = [
    [[{ campaign: "demo" }, { revisions: ["HEAD", "nope"] }], "not_found"],
    [[{ campaign: "nope" }, { revisions: ["HEAD"] }], "not_found"],
    [[{ path: kit.dir.path }, { revisions: ["HEAD"] }], "not_found"],
    [[{ campaign: "demo" }, { revisions: [] }], "invalid_request"],
    [[{ campaign: "demo" }, { revisions: ["HEAD"], repeats: 0 }], "invalid_request"],
    [[{ campaign: "demo" }, { revisions: Array(1001).fill("HEAD") }], "invalid_request"],
  ];
  for (const [args, code] of wrong) {
    await assert.rejects(kit.evaluations.request(...args), { code });
  }
  assert.deepEqual(await kit.evaluations.list({ limit: 10 }), []);
  assert.deepEqual(kit.queue.jobs, []);
});

Deno.test("a request whose submission fails leaves no evaluation behind", async () => {
  await using kit = await Kit.make();
  await kit.evaluations.register(kit.repo.path);
  kit.queue.failWith = new Error("queue is full");
  await assert.rejects(
    kit.evaluations.request({ campaign: "demo" }, { revisions: ["HEAD", "HEAD"] }),
    /queue is full/,
  );
  assert.deepEqual(await kit.evaluations.list({ limit: 10 }), []);
});

/** The row of an evaluation that a server left when it died before it submitted its job. */
async function leaveBehind(kit: Kit): Promise<void> {
  const campaign = await kit.evaluations.register(kit.repo.path);
  await kit.db.write(async (tx) => {
    const candidate = await candidateOf(tx, campaign.id, "a".repeat(40), "left behind");
    const artifact = {
      vcs: { provider: "git" },
      repo: 1,
      revision: "a".repeat(40),
      links: {},
      workspace: null,
      history: [],
    };
    await insertEvaluation(tx, {
      campaign: campaign.id,
      candidate,
      artifact,
      bar: null,
      evaluator: "e",
      barEvaluator: null,
      command: ["x"],
      timeout: 1,
      required: ["score"],
      repeats: 1,
      pool: null,
      priority: 0,
    }, 0);
  });
}

Deno.test("an evaluation that a dying server left without a job is submitted at the next start, once", async () => {
  await using kit = await Kit.make();
  await leaveBehind(kit);
  const cas = openMemory();
  const next = kit.restarted(cas);
  await next.resume();
  await next.resume();
  assert.deepEqual(kit.queue.jobs.map(({ key }) => key), ["1"]);
  const job = evaluationJob.parse(
    JSON.parse(new TextDecoder().decode(sure(await cas.get(sure(kit.queue.jobs[0]).jobCid)))),
  );
  assert.deepEqual([job.evaluation, job.place], [1, "projects/1/measure/1-e1"]);
  assert.equal((await next.evaluation(1)).job, 100);
});

Deno.test("a server starts though its store is away, and submits once it is back", async () => {
  await using kit = await Kit.make();
  await leaveBehind(kit);
  let away = true;
  const put = kit.cas.put.bind(kit.cas);
  kit.cas.put = (data) =>
    away ? Promise.reject(new SubletError("unavailable", "the store is away")) : put(data);
  const waiting: (() => void)[] = [];
  const after = (_ms: number, run: () => void) => (waiting.push(run), () => {});
  const next = kit.restarted(kit.cas, { ...systemClock, after });
  await next.resume();
  assert.deepEqual([kit.queue.jobs.length, waiting.length], [0, 1]);
  away = false;
  waiting[0]?.();
  await until("the job is submitted", () => kit.queue.jobs.length === 1);
});

Deno.test("lists go from new to old, by campaign and state, a page at a time", async () => {
  await using kit = await Kit.make();
  await kit.evaluations.register(kit.repo.path);
  const other = await Repo.make(kit.dir.join("other"), TOML.replace("demo", "other"));
  await kit.evaluations.register(other.path);
  await kit.evaluations.request({ campaign: "demo" }, { revisions: ["HEAD", "HEAD", "HEAD"] });
  await kit.evaluations.request({ campaign: "other" }, { revisions: ["HEAD"] });
  const ids = async (filter: Parameters<typeof kit.evaluations.list>[0]) =>
    (await kit.evaluations.list(filter)).map(({ evaluation }) => evaluation);
  assert.deepEqual(await ids({ limit: 2 }), [4, 3]);
  assert.deepEqual(await ids({ limit: 2, before: 3 }), [2, 1]);
  assert.deepEqual(await ids({ limit: 9, campaign: 1 }), [3, 2, 1]);
  assert.deepEqual(await ids({ limit: 9, state: "measured" }), []);
  assert.deepEqual(await kit.evaluations.counts(1), {
    waiting: 3,
    running: 0,
    measured: 0,
    failed: 0,
    cancelled: 0,
  });
});
