/** @module Tests of evaluations as jobs: what a report comes to, and that an end is an end. */

import assert from "node:assert/strict";
import { type Cid, cidOf } from "../../lib/cas/mod.ts";
import type { EvaluationState } from "../../lib/job/mod.ts";
import { until } from "../kit/mod.ts";
import { Kit, TOML } from "./campaign_kit.ts";

const FILE: Cid = cidOf(new TextEncoder().encode("log"));

const good = (score = 1, more: object = {}) => ({
  metrics: { score },
  seconds: 2,
  error: null,
  units: {},
  ...more,
});

const bad = (error: string, more: object = {}) => ({ metrics: {}, seconds: 1, error, ...more });

interface Wanted {
  readonly repeats?: number;
  readonly against?: string;
}

/** A campaign of two commits, with one evaluation of the newer. */
async function asked(wanted: Wanted = {}, toml = TOML) {
  const kit = await Kit.make(toml);
  await kit.repo.commit("second version");
  await kit.evaluations.register(kit.repo.path);
  await kit.evaluations.request({ campaign: 1 }, { revisions: ["HEAD"], ...wanted });
  const { kind } = kit.evaluations;
  return {
    kit,
    kind,
    now: () => kit.evaluations.evaluation(1),
    start: (lease: number, worker = "w1") =>
      kit.db.write((tx) => kind.started(tx, kit.queue.ref(1, lease, worker))),
    lose: (lease: number) =>
      kit.db.write((tx) => kind.lost(tx, kit.queue.ref(1, lease), "worker is gone")),
    end: (lease: number, end: "dead" | "cancelled", reason: string) =>
      kit.db.write((tx) => kind.ended(tx, kit.queue.ref(1, lease, null), end, reason)),
    report: (lease: number, body: object, worker = "w1") => {
      const parsed = kind.parse({ kind: "evaluation", ...body });
      return kit.db.write((tx) => kind.apply(tx, kit.queue.ref(1, lease, worker), parsed));
    },
    [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose](),
  };
}

Deno.test("a report of successful runs makes an evaluation measured, with their means", async () => {
  await using it = await asked({ repeats: 2 });
  await it.start(7);
  assert.equal((await it.now()).state, "running");
  await it.report(7, { samples: [good(1), good(4)], files: { "candidate-0/eval.stdout": FILE } });
  const done = await it.now();
  assert.equal(done.state, "measured");
  assert.deepEqual(done.metrics, { score: 2.5 });
  assert.deepEqual([done.worker, done.lease, done.attempts, done.seconds], ["w1", 7, 1, 4]);
  assert.deepEqual(done.files, { "candidate-0/eval.stdout": FILE });
  assert.deepEqual(done.samples.map(({ metrics }) => metrics), [{ score: 1 }, { score: 4 }]);
  assert.ok(done.ended_at !== null && done.started_at !== null);
  assert.equal(done.comparison, null);
});

const FAULTS: [string, Wanted, object, RegExp][] = [
  ["a failed run", { repeats: 2 }, { samples: [good(), bad("exit 3")] }, /^exit 3$/],
  ["a failed run of the bar", { against: "HEAD~1" }, {
    samples: [good()],
    bar_samples: [bad("exit 3")],
  }, /^bar: exit 3$/],
  [
    "a run without a required metric",
    {},
    { samples: [{ metrics: { other: 1 }, seconds: 1 }] },
    /^no METRIC line for score$/,
  ],
  [
    "fewer runs than asked for",
    { repeats: 3 },
    { samples: [good()] },
    /^the worker reports 1 of 3 runs$/,
  ],
  [
    "more runs than asked for",
    {},
    { samples: [good(), good()] },
    /^the worker reports 2 of 1 runs$/,
  ],
  [
    "no runs of the bar",
    { against: "HEAD~1" },
    { samples: [good()] },
    /^bar: the worker reports 0 of 1 runs$/,
  ],
  [
    "runs of a bar that was not asked for",
    {},
    { samples: [good()], bar_samples: [good()] },
    /^bar: .* 1 of 0 runs$/,
  ],
];

for (const [what, wanted, body, error] of FAULTS) {
  Deno.test(`an evaluation with ${what} is failed, never measured`, async () => {
    await using it = await asked(wanted);
    await it.report(3, body);
    const done = await it.now();
    assert.equal(done.state, "failed");
    assert.match(done.error ?? "", error);
  });
}

Deno.test("means leave failed runs out, and keep what a failed one printed in its sample", async () => {
  await using it = await asked({ repeats: 2 });
  await it.report(3, { samples: [good(1), bad("exit 3", { metrics: { score: 9 } })] });
  const done = await it.now();
  assert.deepEqual([done.metrics, done.samples[1]?.metrics], [{ score: 1 }, { score: 9 }]);
});

const REFUSED: [string, unknown, string][] = [
  ["a file outside its place", { samples: [good()], files: { "../x": FILE } }, "unsafe_path"],
  ["an absolute file", { samples: [good()], files: { "/etc/x": FILE } }, "unsafe_path"],
  ["a file in .git", { samples: [good()], files: { "a/.git/hooks/x": FILE } }, "unsafe_path"],
  ["an address that is none", { samples: [good()], files: { x: "bafkr4i" } }, "invalid_body"],
  ["no runs", { samples: [] }, "invalid_body"],
  ["a number that is none", { samples: [{ metrics: { score: "1" }, seconds: 1 }] }, "invalid_body"],
  ["another kind", { kind: "agent_finished", samples: [good()] }, "invalid_body"],
  ["runs without end", { samples: Array(1001).fill(good()) }, "invalid_body"],
  ["nothing", null, "invalid_body"],
  ["a list of files", { samples: [good()], files: [FILE] }, "invalid_body"],
];

for (const [what, body, code] of REFUSED) {
  Deno.test(`a report is refused as ${code}: ${what}`, async () => {
    await using it = await asked();
    const report = body === null ? null : { kind: "evaluation", ...body as object };
    assert.throws(() => it.kind.parse(report), { code });
  });
}

Deno.test("the blobs of a report are those of its files, each once", async () => {
  await using it = await asked();
  const report = it.kind.parse({
    kind: "evaluation",
    samples: [good()],
    files: { a: FILE, "b/c": FILE },
  });
  assert.deepEqual(it.kind.blobs(report), [FILE]);
});

Deno.test("an error with a NUL or without end is kept, cleaned and cut", async () => {
  await using it = await asked();
  await it.report(3, { samples: [bad("x\0y\uD800" + "z".repeat(20_000))] });
  const { error } = await it.now();
  assert.ok(error?.startsWith("x\uFFFDy\uFFFDzz"));
  assert.ok((error?.length ?? 0) <= 8_001);
});

Deno.test("after an end, reports and starts are stale and change nothing", async () => {
  await using it = await asked();
  await it.report(3, { samples: [good(1)] });
  const before = await it.now();
  await assert.rejects(it.report(4, { samples: [good(9)] }, "w2"), { code: "stale_lease" });
  await assert.rejects(it.start(4, "w2"), { code: "stale_lease" });
  await it.lose(4);
  await it.end(4, "dead", "too late");
  assert.deepEqual(await it.now(), before);
});

Deno.test("a lost attempt makes it wait again, and each lease is one attempt", async () => {
  await using it = await asked();
  await it.start(3);
  await it.start(3);
  await it.lose(3);
  const waiting = await it.now();
  assert.deepEqual([waiting.state, waiting.worker, waiting.attempts], ["waiting", null, 1]);
  await it.lose(5);
  await it.start(8, "w2");
  await it.report(8, { samples: [good()] }, "w2");
  const done = await it.now();
  assert.deepEqual([done.state, done.worker, done.lease, done.attempts], ["measured", "w2", 8, 3]);
});

const ENDS: ["dead" | "cancelled", EvaluationState][] = [["dead", "failed"], [
  "cancelled",
  "cancelled",
]];
for (const [end, state] of ENDS) {
  Deno.test(`a job that ends ${end} without a report leaves its evaluation ${state}, with the reason`, async () => {
    await using it = await asked();
    await it.end(0, end, "because");
    const done = await it.now();
    assert.deepEqual([done.state, done.error, done.attempts, done.lease], [
      state,
      "because",
      0,
      null,
    ]);
  });
}

Deno.test("a successful report of a job whose cancel was asked ends cancelled, never measured", async () => {
  await using it = await asked({ against: "HEAD~1" });
  await it.start(3);
  const report = it.kind.parse({ kind: "evaluation", samples: [good()], bar_samples: [good()] });
  const revoked = { ...it.kit.queue.ref(1, 3), revoked: "not needed any more" };
  await it.kit.db.write((tx) => it.kind.apply(tx, revoked, report));
  const done = await it.now();
  assert.deepEqual([done.state, done.error, done.comparison], [
    "cancelled",
    "not needed any more",
    null,
  ]);
});

Deno.test("a job that is queued again makes its evaluation wait again, empty", async () => {
  await using it = await asked();
  await it.report(3, { samples: [bad("exit 1", { units: { score: { a: 1 } } })] });
  const retry = () => it.kit.db.write((tx) => it.kind.retried(tx, it.kit.queue.ref(1, 4, null)));
  await retry();
  const again = await it.now();
  assert.deepEqual([again.state, again.error, again.samples, again.ended_at], [
    "waiting",
    null,
    [],
    null,
  ]);
  await it.report(4, { samples: [good(2, { units: { score: { a: 2 } } })] });
  assert.equal((await it.now()).state, "measured");
  await assert.rejects(retry(), { code: "conflict" });
  assert.equal((await it.now()).state, "measured", "what was measured stays so");
});

Deno.test("beside a bar, the verdict is stored with the result", async () => {
  await using it = await asked({ against: "HEAD~1", repeats: 2 });
  await it.report(3, { samples: [good(5), good(7)], bar_samples: [good(1), good(1)] });
  const { comparison, against, bar_samples } = await it.now();
  assert.deepEqual([comparison?.verdict, comparison?.against], ["keep", against]);
  assert.equal(comparison?.evaluator_changed, false);
  assert.deepEqual(comparison?.metrics["score"]?.differences, [4, 6]);
  assert.equal(bar_samples.length, 2);
});

Deno.test("results by unit decide and stay out of the answer", async () => {
  await using it = await asked({ against: "HEAD~1" });
  const own = good(6, { units: { score: { a: 2, b: 2, c: 2 } } });
  const bar = good(3, { units: { score: { a: 1, b: 1, c: 1 } } });
  await it.report(3, { samples: [own], bar_samples: [bar] });
  const done = await it.now();
  assert.deepEqual([done.comparison?.metrics["score"]?.method, done.comparison?.verdict], [
    "units",
    "keep",
  ]);
  assert.ok(!JSON.stringify(done).includes('"units":{'));
});

Deno.test("a gain that another script measured is interesting at most", async () => {
  const kit = await Kit.make();
  await using _ = kit;
  await kit.repo.write("evaluate.py", "print('METRIC score=100')\n");
  await kit.repo.commit("a better score, from a better script");
  await kit.evaluations.register(kit.repo.path);
  await kit.evaluations.request({ campaign: 1 }, { revisions: ["HEAD"], against: "HEAD~1" });
  const { kind } = kit.evaluations;
  const report = kind.parse({ kind: "evaluation", samples: [good(100)], bar_samples: [good(1)] });
  await kit.db.write((tx) => kind.apply(tx, kit.queue.ref(1, 3), report));
  const { comparison } = await kit.evaluations.evaluation(1);
  assert.deepEqual([comparison?.verdict, comparison?.evaluator_changed], ["interesting", true]);
  assert.match(comparison?.reason ?? "", /another command or script measured the bar/);
});

Deno.test("a comparison that a dying server did not make is made at the next start", async () => {
  await using it = await asked({ against: "HEAD~1" });
  await it.report(3, { samples: [good(2)], bar_samples: [good(1)] });
  await it.kit.evaluations.idle();
  await it.kit.db.write((tx) => tx.run("UPDATE evaluations SET comparison = NULL"));
  await it.kit.restarted().resume();
  const row = await it.kit.db.read((tx) => tx.get("SELECT comparison FROM evaluations"));
  assert.match(String(row?.comparison), /"verdict":"keep"/);
});

Deno.test("whoever waits for an evaluation is answered by the commit that ends it", async () => {
  await using it = await asked({ against: "HEAD~1" });
  const forever = new AbortController().signal;
  const waiting = it.kit.evaluations.waitFor(1, 3_600_000, forever);
  let answered = false;
  waiting.then(() => answered = true);
  await it.start(3);
  assert.equal((await it.now()).state, "running");
  assert.equal(answered, false, "a change that is no end answers nobody");
  await it.report(3, { samples: [good(2)], bar_samples: [good(1)] });
  const done = await waiting;
  assert.deepEqual([done.state, done.comparison?.verdict], ["measured", "keep"]);
});

Deno.test("a wait ends with the evaluation as it is, when its time is over or its caller has gone", async () => {
  await using it = await asked();
  const signal = new AbortController().signal;
  assert.equal((await it.kit.evaluations.waitFor(1, 1, signal)).state, "waiting");
  const caller = new AbortController();
  const waiting = it.kit.evaluations.waitFor(1, 3_600_000, caller.signal);
  caller.abort();
  assert.equal((await waiting).state, "waiting");
  assert.equal(
    (await it.kit.evaluations.waitFor(1, 3_600_000, AbortSignal.abort())).state,
    "waiting",
  );
  await assert.rejects(it.kit.evaluations.waitFor(99, 1000, signal), { code: "not_found" });
});

Deno.test("a hundred waiters cost no query while nothing is for them", async () => {
  await using it = await asked();
  const caller = new AbortController();
  let reads = 0;
  const { db } = it.kit;
  const read = db.read.bind(db);
  db.read = (body) => (reads++, read(body));
  const waiting = Array.from(
    { length: 100 },
    () => it.kit.evaluations.waitFor(1, 3_600_000, caller.signal),
  );
  await until("every waiter has looked once", () => reads === 100);
  await db.write((tx) => tx.run("UPDATE campaigns SET updated_at = 1"));
  assert.equal(reads, 100);
  caller.abort();
  await Promise.all(waiting);
});
