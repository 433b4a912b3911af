/** @module Tests of evaluations with real commits, a store and real processes. */

import assert from "node:assert/strict";
import { isError, SubletError } from "../../lib/home/mod.ts";
import { turnsOf } from "../../lib/job/evaluation_runner.ts";
import { until } from "../kit/mod.ts";
import { tagged } from "../kit/processes.ts";
import { Bench, Control, reportOf } from "./run_kit.ts";

/** The error of the only sample. */
function errorOf(report: { samples: readonly { error: string | null }[] }): string {
  const error = report.samples.at(-1)?.error;
  assert.ok(typeof error === "string", "the run did not fail");
  return error;
}

const names = (path: string) => [...Deno.readDirSync(path)].map((entry) => entry.name).sort();

Deno.test("a command that prints its metric in a checkout of the commit is measured", async () => {
  await using bench = await Bench.make();
  const control = new Control();
  const report = await bench.report('echo "METRIC score=$(cat value)"', {}, control);
  assert.equal(report.samples.length, 1);
  const [sample] = report.samples;
  assert.deepEqual({ ...sample, seconds: 0 }, {
    metrics: { score: 1 },
    seconds: 0,
    error: null,
    units: {},
  });
  assert.ok(sample !== undefined && sample.seconds > 0);
  assert.deepEqual(report.bar_samples, []);
  assert.deepEqual(Object.keys(report.files).sort(), [
    "candidate-0/eval.stderr",
    "candidate-0/eval.stdout",
  ]);
  assert.equal(await bench.log(report), "METRIC score=1\n");
  assert.equal(control.handles.length, 1);
  assert.ok(control.handles[0] !== undefined && "pgid" in control.handles[0]);
});

Deno.test("a warm worker runs git once for a job, and asks the server for nothing", async () => {
  await using bench = await Bench.make();
  await bench.report("echo METRIC score=1");
  const [helpers, sends] = [bench.processes.helpers.length, bench.sends];
  await bench.report("echo METRIC score=1", {}, new Control(8));
  assert.equal(bench.processes.helpers.length - helpers, 1);
  assert.equal(bench.sends, sends);
});

Deno.test("failures say what happened", async (test) => {
  await using bench = await Bench.make();
  let lease = 1;
  const cases: [string, string, RegExp, Record<string, unknown>?][] = [
    ["a metric that was not printed", "echo METRIC other=1", /no METRIC line for "score"/],
    [
      "a malformed metric",
      "echo METRIC score=fast",
      /no METRIC line.*not understood: "METRIC score=fast"/,
    ],
    ["NaN", "echo METRIC score=nan", /no METRIC line for "score".*nan/],
    ["an exit code", "echo METRIC score=1; echo oh no >&2; exit 3", /^exit 3: oh no$/],
    ["an exit code without a word", "exit 4", /^exit 4$/],
    ["a signal of its own", "kill -SEGV $$", /^killed by SIGSEGV \(exit -11\)/],
    ["a program that is missing", "", /could not run: there is no program/, {
      command: ["/nowhere/program"],
    }],
    ["a commit that is nowhere", "true", /could not run: .*0123456789/, {
      artifact: { ...bench.source(), revision: "0123456789".repeat(4) },
    }],
    ["a provider that is missing", "true", /could not run: .*"hg"/, {
      artifact: { ...bench.source(), vcs: { provider: "hg" } },
    }],
  ];
  for (const [what, script, expected, fields] of cases) {
    await test.step(what, async () => {
      const report = await bench.report(script, fields, new Control(lease++));
      assert.match(errorOf(report), expected);
    });
  }
});

Deno.test("a failed run keeps the metrics that it printed", async () => {
  await using bench = await Bench.make();
  const report = await bench.report("echo METRIC score=2; exit 1");
  assert.deepEqual(report.samples[0]?.metrics, { score: 2 });
  assert.equal(errorOf(report), "exit 1");
});

Deno.test("an error holds the last 500 characters of stderr", async () => {
  await using bench = await Bench.make();
  const report = await bench.report(
    "yes 1234567 | head -c 100000 >&2; printf 'the end' >&2; exit 1",
  );
  const said = errorOf(report).slice("exit 1: ".length);
  assert.equal([...said].length, 500);
  assert.ok(said.endsWith("1234567\nthe end"));
});

Deno.test("a commit that did not reach the server's repository is a sample with its reason", async () => {
  await using bench = await Bench.make();
  bench.refusal = new SubletError("not_sent", "the repository of record lost it");
  const report = await bench.report("echo METRIC score=1");
  assert.match(errorOf(report), /could not run: .*the repository of record lost it/);
  assert.equal(report.samples[0]?.seconds, 0);
  bench.refusal = null;
  assert.equal(
    (await bench.report("echo METRIC score=1", {}, new Control(8))).samples[0]?.error,
    null,
  );
});

Deno.test("a server that is away for a moment does not fail the candidate", async () => {
  await using bench = await Bench.make();
  bench.refusal = new SubletError("unavailable", "it restarts");
  const running = bench.report("echo METRIC score=1");
  await until("the worker asks", () => bench.sends > 0);
  bench.refusal = null;
  assert.equal((await running).samples[0]?.error, null);
  assert.equal(bench.events[0]?.event, "evaluation.not_ready");
});

Deno.test("a command that goes on past its time is stopped with all it started", async () => {
  await using bench = await Bench.make();
  const report = await bench.report(
    `trap '' TERM
     setsid sh -c 'trap "" TERM; touch ../own-session; while :; do sleep 0.1; done' &
     sh -c 'trap "" TERM; while :; do sleep 0.1; done' &
     while :; do sleep 0.1; done`,
    { timeout: 0.5 },
  );
  assert.equal(errorOf(report), "timeout after 0.5 s");
  assert.ok((report.samples[0]?.seconds ?? 0) >= 0.5);
  assert.ok("candidate-0/own-session" in report.files);
  assert.deepEqual(await tagged(bench.processes.started[0]?.tag ?? ""), []);
});

Deno.test("what a command leaves in the background after a clean exit is stopped", async () => {
  await using bench = await Bench.make();
  const report = await bench.report(
    `sleep 600 & setsid sleep 600 & echo METRIC score=1`,
  );
  assert.equal(report.samples[0]?.error, null);
  assert.deepEqual(await tagged(bench.processes.started[0]?.tag ?? ""), []);
});

Deno.test("a run that a stranger killed is tried once more in a new checkout", async () => {
  await using bench = await Bench.make();
  const flag = bench.dir.join("flag");
  const report = await bench.report(
    `echo first >> value; [ -e ${flag} ] || { touch ${flag}; kill -KILL $$; }
     echo METRIC score=$(wc -l < value)`,
  );
  assert.deepEqual(report.samples.map((sample) => [sample.metrics.score, sample.error]), [[
    2,
    null,
  ]]);
  assert.deepEqual(Object.keys(report.files).sort(), [
    "candidate-0-again/eval.stderr",
    "candidate-0-again/eval.stdout",
    "candidate-0/eval.stderr",
    "candidate-0/eval.stdout",
  ]);
  assert.deepEqual(bench.events.map(({ event }) => event), ["evaluation.retry"]);
});

Deno.test("a run that strangers killed twice has failed", async () => {
  await using bench = await Bench.make();
  const report = await bench.report("kill -TERM $$; sleep 10");
  assert.equal(errorOf(report), "killed by SIGTERM (exit -15)");
  assert.equal(bench.processes.started.length, 2);
});

Deno.test("a signal that is the program's own fault is not tried again", async () => {
  await using bench = await Bench.make();
  await bench.report("kill -SEGV $$");
  assert.equal(bench.processes.started.length, 1);
});

Deno.test("a lease that is revoked during the run stops it, and is still reported", async () => {
  await using bench = await Bench.make();
  const control = new Control();
  const running = bench.runner.run(bench.job("echo METRIC score=1; sleep 600"), control);
  await until(
    "the command prints",
    () => bench.processes.started.length > 0 && control.handles.length > 0,
  );
  control.revoke();
  const outcome = await running;
  const report = reportOf(outcome);
  assert.equal(errorOf(report), "it was stopped: the lease was revoked");
  assert.equal("report" in outcome && outcome.report.stopped, true);
  assert.equal(bench.processes.started.length, 1);
  assert.ok("candidate-0/eval.stdout" in report.files);
});

Deno.test("a job that must stop before it starts runs nothing, and is still reported", async () => {
  await using bench = await Bench.make();
  const control = new Control();
  control.revoke("the worker stops");
  const report = await bench.report("echo METRIC score=1", {}, control);
  assert.equal(errorOf(report), "it was stopped: the worker stops");
  assert.equal(bench.processes.started.length, 0);
});

Deno.test("a revoke while the commit is fetched is reported at once", async () => {
  const control = new Control();
  await using bench = await Bench.make({}, () => ({
    send: (_repo, _revisions, _have, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
        control.revoke();
      }),
  }));
  const report = await bench.report("true", {}, control);
  assert.equal(errorOf(report), "it was stopped: the lease was revoked");
});

Deno.test("a stop that comes when everything was measured does not spoil the result", async () => {
  await using bench = await Bench.make();
  const control = new Control();
  const { putStream } = bench.cas;
  bench.cas.putStream = (...args) => {
    if (bench.processes.started.length > 0) control.revoke();
    return putStream.apply(bench.cas, args);
  };
  const script = "echo METRIC score=1; yes | head -c 2000000";
  const outcome = await bench.runner.run(bench.job(script), control);
  assert.deepEqual(reportOf(outcome).samples[0]?.metrics, { score: 1 });
  assert.equal(reportOf(outcome).samples[0]?.error, null);
  assert.equal("report" in outcome && "stopped" in outcome.report, false);
  assert.equal(control.stop.aborted, true);
});

Deno.test("a lease that is stale at the start reports nothing, and nothing of it is left", async () => {
  await using bench = await Bench.make();
  const outcome = await bench.runner.run(bench.job("sleep 600"), new Control(7, false));
  assert.deepEqual(outcome, { stale: true });
  assert.deepEqual(await tagged(bench.processes.started[0]?.tag ?? ""), []);
  assert.deepEqual(names(bench.dir.join("home/runs/12/eval-0")), []);
});

Deno.test("a start that cannot be recorded stops the process and loses the job", async () => {
  await using bench = await Bench.make();
  const control = new Control();
  control.started = () => Promise.reject(new SubletError("unavailable", "no answer"));
  await assert.rejects(
    bench.runner.run(bench.job("sleep 600"), control),
    (error) => isError(error, "unavailable"),
  );
  assert.deepEqual(await tagged(bench.processes.started[0]?.tag ?? ""), []);
});

Deno.test("runs with a bar alternate in who goes first", () => {
  const order = (repeats: number, paired: boolean) =>
    [...turnsOf(repeats, paired)].map(({ side, number }) => `${side[0]}${number}`).join(" ");
  assert.equal(order(3, true), "c0 b0 b1 c1 c2 b2");
  assert.equal(order(2, false), "c0 c1");
});

Deno.test("paired runs measure the candidate and its bar in turn, each in a checkout of its own", async () => {
  await using bench = await Bench.make();
  const order = bench.dir.join("order");
  const bar = { candidate: 4, artifact: bench.source() };
  const artifact = bench.source({ revision: await bench.commit({ value: "2\n" }) });
  const report = await bench.report(
    `cat value >> ${order}; echo METRIC score=$(cat value); echo 9 > value`,
    { repeats: 3, artifact, bar },
  );
  assert.equal((await Deno.readTextFile(order)).replaceAll("\n", ""), "211221");
  assert.deepEqual(report.samples.map((sample) => sample.metrics.score), [2, 2, 2]);
  assert.deepEqual(report.bar_samples.map((sample) => sample.metrics.score), [1, 1, 1]);
  assert.ok("bar-1/eval.stdout" in report.files && "candidate-2/eval.stdout" in report.files);
});

Deno.test("runs stop after the first that fails", async () => {
  await using bench = await Bench.make();
  const bar = { candidate: 4, artifact: bench.source() };
  const count = bench.dir.join("count");
  const report = await bench.report(
    `echo x >> ${count}; [ $(wc -l < ${count}) -lt 3 ] || exit 1; echo METRIC score=1`,
    { repeats: 5, bar },
  );
  assert.deepEqual(report.samples.map((sample) => sample.error), [null]);
  assert.deepEqual(report.bar_samples.map((sample) => sample.error), [null, "exit 1"]);
});

Deno.test("a revoke between runs leaves a sample that says so", async () => {
  await using bench = await Bench.make();
  const control = new Control();
  const started = control.started.bind(control);
  control.started = async (handle) => {
    if (control.handles.length === 1) control.revoke();
    return await started(handle);
  };
  const report = await bench.report("echo METRIC score=1; sleep 0.1", { repeats: 3 }, control);
  assert.equal(report.samples[0]?.error, null);
  assert.match(errorOf(report), /^it was stopped/);
});

Deno.test("the job's environment holds nothing of the worker's", async () => {
  const outside = {
    SUBLET_HTTPS_TOKEN: "slt_secret",
    PILOOP_HTTPS_TOKEN: "plt_secret",
    SOME_OUTSIDE_VARIABLE: "outside",
  };
  for (const [name, value] of Object.entries(outside)) Deno.env.set(name, value);
  try {
    await using bench = await Bench.make();
    const before = Math.floor(Date.now() / 1000);
    const report = await bench.report("env; echo METRIC score=1", { timeout: 100 });
    const text = await bench.log(report);
    const env = new Map(text.split("\n").map((line) => line.split(/=(.*)/s) as [string, string]));
    for (const [name, value] of Object.entries(outside)) {
      assert.equal(env.has(name), false);
      assert.equal(text.includes(value), false);
    }
    assert.ok(env.has("LANG") || env.has("LC_ALL"));
    assert.deepEqual([...env.keys()].filter((name) => /^(SUBLET|PILOOP)_/.test(name)).sort(), [
      "PILOOP_UNITS_FILE",
      "SUBLET_DEADLINE",
      "SUBLET_PROCESS_TAG",
      "SUBLET_UNITS_FILE",
    ]);
    assert.equal(env.get("SUBLET_UNITS_FILE"), env.get("PILOOP_UNITS_FILE"));
    const left = Number(env.get("SUBLET_DEADLINE")) - before;
    assert.ok(left >= 100 && left < 200, String(left));
  } finally {
    for (const name of Object.keys(outside)) Deno.env.delete(name);
  }
});

Deno.test("units that add up are reported, and are no log", async () => {
  await using bench = await Bench.make();
  const report = await bench.report(
    `echo METRIC score=3; echo '{"score": {"a": 1, "b": 2}}' > $SUBLET_UNITS_FILE`,
  );
  assert.deepEqual(report.samples[0]?.units, { score: { a: 1, b: 2 } });
  assert.equal(Object.keys(report.files).some((path) => path.includes("units")), false);
});

Deno.test("units that do not add up, or are no file, fail the run", async () => {
  await using bench = await Bench.make();
  const wrong = await bench.report(
    `echo METRIC score=3; echo '{"score": {"a": 1}}' > $PILOOP_UNITS_FILE`,
  );
  assert.match(errorOf(wrong), /units file: the units of "score" add up to 1, and 3 was printed/);
  assert.deepEqual(wrong.samples[0]?.metrics, { score: 3 });
  const link = await bench.report(
    `echo METRIC score=3; ln -s /etc/hostname $SUBLET_UNITS_FILE`,
    {},
    new Control(8),
  );
  assert.match(errorOf(link), /units file: .*symbolic link/);
});

Deno.test("two evaluations of one repository run at once, and fill its clone once", async () => {
  await using bench = await Bench.make();
  const next = await bench.commit({ value: "2\n" });
  const [first, second] = await Promise.all([
    bench.report("echo METRIC score=$(cat value)", {}, new Control(1)),
    bench.report(
      "echo METRIC score=$(cat value)",
      { artifact: bench.source({ revision: next }) },
      new Control(2),
    ),
  ]);
  assert.deepEqual(first.samples[0]?.metrics, { score: 1 });
  assert.deepEqual(second.samples[0]?.metrics, { score: 2 });
  assert.deepEqual(names(bench.dir.join("home/clones")), ["3"]);
});

Deno.test("cleanup removes the lease's place and its checkout, and nothing else", async () => {
  await using bench = await Bench.make();
  const job = bench.job("echo METRIC score=1");
  await bench.runner.run(job, new Control(7));
  await bench.runner.run(job, new Control(8));
  const place = bench.dir.join("home/runs/12/eval-0");
  assert.deepEqual(names(place), ["lease-7", "lease-8"]);
  await bench.runner.cleanup(job, 7);
  await bench.runner.cleanup(job, 7);
  assert.deepEqual(names(place), ["lease-8"]);
  assert.ok(names(`${place}/lease-8/candidate-0`).includes("worktree"));
  await bench.runner.cleanup(job, 8);
  assert.deepEqual(names(bench.dir.join("home/clones/3/sublet-checkouts")), []);
});

Deno.test("cleanup removes what a job made unwritable", async () => {
  await using bench = await Bench.make();
  const job = bench.job(
    "mkdir -p deep/er; touch deep/er/file; chmod -R a-w .; chmod 0 deep; echo METRIC score=1",
  );
  await bench.runner.run(job, new Control());
  await bench.runner.cleanup(job, 7);
  assert.deepEqual(names(bench.dir.join("home/runs/12/eval-0")), []);
});

Deno.test("a job whose place leaves the home, or is the home's own, fails, and nothing is written", async () => {
  await using bench = await Bench.make();
  const refused = async (place: string) => {
    const outcome = await bench.runner.run(bench.job("true", { place }), new Control());
    return errorOf(reportOf(outcome));
  };
  for (const place of ["../outside", "/tmp/outside", "a/../../b", "", ".git/hooks"]) {
    assert.match(await refused(place), /^the job is not valid: place: (?!place).*is refused/);
  }
  const own = [
    "inputs",
    "clones/a",
    "Spool",
    "tmp",
    "store/x",
    "bin",
    "worker-1.lock",
    "config.toml",
  ];
  for (const place of [...own, "sublet.db-wal", "begun/worker", "TMP. ./x"]) {
    assert.equal(
      await refused(place),
      "the job is not valid: place: it is a name that a worker's home uses itself",
      place,
    );
  }
  assert.deepEqual(names(bench.dir.path), ["home", "record"]);
  assert.deepEqual(names(bench.dir.join("home")), []);
});

Deno.test("a place that is a link out of the home is refused, and nothing is written", async () => {
  await using bench = await Bench.make();
  await Deno.mkdir(bench.dir.join("outside"));
  await Deno.symlink(bench.dir.join("outside"), bench.dir.join("home/runs"));
  await assert.rejects(
    bench.runner.run(bench.job("true"), new Control()),
    (error) => isError(error, "unsafe_path"),
  );
  assert.deepEqual(names(bench.dir.join("outside")), []);
});

Deno.test("a job that is not valid, or for another runner, has failed at once, with the reason", async () => {
  await using bench = await Bench.make();
  const error = async (job: unknown) =>
    errorOf(reportOf(await bench.runner.run(job, new Control())));
  assert.match(await error({ kind: "evaluation" }), /^the job is not valid: evaluation: /);
  assert.match(await error(bench.job("true", { command: [] })), /command/);
  assert.match(await error(bench.job("true", { timeout: 0 })), /timeout/);
  assert.match(await error(bench.job("true", { runner: "docker" })), /no runner "docker"/);
});

Deno.test("a restarted worker stops what the earlier one left, and loses the job", async () => {
  await using bench = await Bench.make();
  const control = new Control();
  const job = bench.job("setsid sleep 600 & sleep 600");
  const gone = Promise.withResolvers<void>();
  bench.processes.deaf = gone.promise;
  const first = bench.runner.run(job, control);
  await until(
    "the command runs",
    async () => (await tagged(bench.processes.started[0]?.tag ?? "none")).length >= 2,
  );
  const handle = control.handles[0] ?? null;
  const outcome = await bench.restarted().recover(job, { handle, startedAt: null }, new Control());
  assert.deepEqual(outcome, { lost: "its worker started again while the evaluation ran" });
  assert.deepEqual(await tagged(bench.processes.started[0]?.tag ?? ""), []);
  control.revoke();
  gone.resolve();
  await first;
});

Deno.test("a restarted worker kills no process that has only the pid of the job's", async () => {
  await using bench = await Bench.make();
  const stranger = new Deno.Command("sleep", { args: ["600"], detached: true }).spawn();
  try {
    for (const start_time of [1, null]) {
      const handle = { pgid: stranger.pid, start_time };
      const outcome = await bench.runner.recover(
        bench.job("true"),
        { handle, startedAt: null },
        new Control(),
      );
      assert.ok("lost" in outcome);
    }
    assert.equal(await bench.processes.alive({ pid: stranger.pid, startTime: null }), true);
  } finally {
    stranger.kill("SIGKILL");
    await stranger.status;
  }
});

Deno.test("a process that was not recorded before a restart is found by its tag", async () => {
  await using bench = await Bench.make();
  const control = new Control();
  const job = bench.job("sleep 600");
  const gone = Promise.withResolvers<void>();
  bench.processes.deaf = gone.promise;
  const first = bench.runner.run(job, control);
  await until(
    "the command runs",
    async () => (await tagged(bench.processes.started[0]?.tag ?? "none")).length > 0,
  );
  await bench.restarted().recover(job, { handle: null, startedAt: null }, new Control());
  assert.deepEqual(await tagged(bench.processes.started[0]?.tag ?? ""), []);
  control.revoke();
  gone.resolve();
  await first;
});
