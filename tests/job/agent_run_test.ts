/** @module Agents from their job to their report, with real commits, a store, real processes and stub harnesses. */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import { until } from "../kit/mod.ts";
import {
  AgentBench,
  AgentControl,
  exists,
  finishedOf,
  notStartedOf,
  standing,
} from "./agent_kit.ts";

const COMMIT = "git -c user.name=a -c user.email=a@b commit -q";

Deno.test("an agent's saved and unsaved work, its files and its tokens come back", async () => {
  await using bench = await AgentBench.make();
  const control = new AgentControl();
  const report = await bench.report(
    `echo saved >saved; git add saved; ${COMMIT} -m "one"\necho unsaved >unsaved; echo 2 >value; echo no >ignored`,
    {},
    control,
  );
  assert.equal(report.process.error, null);
  assert.equal(report.process.exit_code, 0);
  assert.equal(report.process.status, "exited");
  assert.equal(report.changed, true);
  const work = await bench.take(report.work);
  assert.equal(work.subjects[0], "one");
  assert.equal(work.subjects.length, 2);
  assert.deepEqual(await work.files(), [".gitignore", "saved", "unsaved", "value"]);
  assert.equal(await work.show("value"), "2\n");
  assert.deepEqual({ ...report.usage, source: "" }, {
    input: 3,
    output: 7,
    cache_read: 100,
    cache_write: 20,
    total: 130,
    turns: 1,
    source: "",
  });
  assert.deepEqual(Object.keys(report.files).sort(), [
    "agent_session.stderr",
    "agent_session.stdout",
    "brief.md",
    "transcript.txt",
  ]);
  assert.equal(control.handles.length, 1);
  assert.match(await bench.read(report.session?.file), /"text":"done with 0"/);
  assert.equal(await bench.stream(control, "session"), await bench.read(report.session?.file));
});

Deno.test("an agent that changes nothing brings nothing back, and its directory goes with the report", async () => {
  await using bench = await AgentBench.make();
  const job = await bench.job("true");
  const report = finishedOf(await bench.runner.run(job, new AgentControl()));
  assert.equal(report.changed, false);
  assert.equal(report.work, null);
  assert.ok(await exists(bench.root));
  await bench.runner.cleanup(job, 7);
  assert.ok(!await exists(bench.root));
  assert.deepEqual([...Deno.readDirSync(bench.dir.join("home/begun/worker.agents"))], []);
});

Deno.test("what an agent is told of its machine is an allow-list, the secrets of its job, and what it needs", async () => {
  await using bench = await AgentBench.make();
  const control = new AgentControl();
  control.secretValues = { THE_KEY: "k-123456", OTHER: "not asked for" };
  const report = await bench.report(
    "env | sort >env",
    { secrets: { API_KEY: "THE_KEY" } },
    control,
  );
  const text = await (await bench.take(report.work)).show("env");
  const env = new Map(
    text.trim().split("\n").map((line) => {
      const at = line.indexOf("=");
      return [line.slice(0, at), line.slice(at + 1)] as const;
    }),
  );
  assert.equal(env.get("API_KEY"), "k-123456");
  assert.equal(env.get("SUBLET_HOME"), bench.site.home);
  assert.equal(env.get("SUBLET_ACTOR"), "agent#5");
  assert.equal(env.get("SUBLET_MESSAGES"), `${bench.root}/.run/messages`);
  assert.ok(Math.abs(Number(env.get("SUBLET_DEADLINE")) - Date.now() / 1000 - 60) < 30);
  assert.equal(env.get("PATH")?.split(":")[0], env.get("SUBLET_BIN")?.replace(/\/sublet$/, ""));
  for (
    const name of ["SUBLET_HTTPS_TOKEN", "SECRET_OF_THE_WORKER", "OTHER", "THE_KEY", "PILOOP_HOME"]
  ) {
    assert.equal(env.get(name), undefined, name);
  }
});

Deno.test("an agent of a piloop server finds what its prompts name", async () => {
  await using bench = await AgentBench.make();
  const job = await bench.job(
    'env | grep ^PILOOP >env; command -v piloop >>env; piloop agent messages; piloop sql; echo "$?" >>env',
  );
  const spec = job["spec"] as { env: Record<string, string> };
  delete spec.env["SUBLET_ACTOR"];
  const report = finishedOf(await bench.runner.run(job, new AgentControl()));
  const text = await (await bench.take(report.work)).show("env");
  for (const name of ["HOME", "BIN", "DEADLINE", "MESSAGES", "ACTOR"]) {
    assert.match(text, new RegExp(`^PILOOP_${name}=.`, "m"));
  }
  assert.match(text, /\.run\/bin\/piloop\n8\n$/);
});

Deno.test("each harness is called, its session found, and its tokens read", async (test) => {
  for (const harness of ["claude", "codex", "pi"]) {
    await test.step(harness, async () => {
      await using bench = await AgentBench.make();
      const control = new AgentControl();
      const report = await bench.report("echo 5 >value", {}, control, harness);
      assert.equal(report.process.error, null);
      assert.equal(report.usage?.turns, 1);
      assert.equal(report.usage?.cache_read, 100);
      assert.equal(report.usage?.output, 7);
      assert.match(report.session_id ?? "", /^[0-9a-f-]{36}$/);
      assert.deepEqual(new Set(control.sessions), new Set([report.session_id]));
      assert.match(report.session?.name ?? "", new RegExp(`${report.session_id}.jsonl$`));
      assert.equal(await bench.stream(control, "session"), await bench.read(report.session?.file));
      const last = control.parts.filter(({ stream }) => stream === "session").at(-1);
      assert.deepEqual(last?.usage, report.usage);
      assert.equal(last?.session?.id, report.session_id);
    });
  }
});

Deno.test("any program is an agent", async () => {
  await using bench = await AgentBench.make();
  const control = new AgentControl();
  const report = await bench.report(
    "echo 6 >value; echo hello; echo oops >&2; exit 3",
    {},
    control,
    "command",
  );
  assert.equal(report.process.exit_code, 3);
  assert.match(report.process.error ?? "", /^exit 3: oops$/);
  assert.equal(await (await bench.take(report.work)).show("value"), "6\n");
  assert.equal(await bench.read(report.files["agent_session.stdout"]), "hello\n");
  assert.equal(await bench.read(report.files["transcript.txt"]), "hello\n");
  assert.equal(await bench.stream(control, "agent_session.stdout"), "hello\n");
});

Deno.test("what keeps an agent from starting is said, and nothing stays of it", async (test) => {
  await using bench = await AgentBench.make();
  const cases: [string, Record<string, unknown>, RegExp, ((control: AgentControl) => void)?][] = [
    ["a commit that is nowhere", {
      artifact: { ...bench.source(), revision: "0123456789".repeat(4) },
    }, /0123456789/],
    ["secrets that are not set", { secrets: { A: "ONE", B: "TWO" } }, /not set: ONE, TWO\./],
    [
      "a secret that no job gets",
      { secrets: { SUBLET_HTTPS_TOKEN: "ONE" } },
      /credential/,
      (control) => {
        control.secretValues = { ONE: "1" };
      },
    ],
    ["secrets that are refused", { secrets: { A: "ONE" } }, /no vault/, (control) => {
      control.secretsFail = new SubletError("failed", "no vault");
    }],
    [
      "a brief that is lost",
      { brief_cid: cidOf(new TextEncoder().encode("lost")) },
      /lacks the agent's brief/,
    ],
    ["a runtime that is not had", { runtime: "herdr" }, /no runtime "herdr"/],
    ["servers that no harness takes", {
      mcp: "emacs",
      servers: { a: { url: "https://a.example" } },
    }, /not for "emacs"/],
    ["a server that is none", {
      servers: { a: { url: "https://a.example", command: ["b"] } },
    }, /MCP server a: it needs either/],
    ["a place of the home's own", { place: "inputs/x" }, /uses itself/],
    ["a place outside of the home", { place: "../x" }, /place/],
    ["no word of how", { spec: null }, /does not say how/],
  ];
  for (const [what, fields, expected, set] of cases) {
    await test.step(what, async () => {
      const control = new AgentControl();
      set?.(control);
      const job = await bench.job("true", fields);
      const report = notStartedOf(await bench.runner.run(job, control));
      assert.match(report.reason, expected);
      assert.equal(control.handles.length, 0);
      await bench.runner.cleanup(job, 7);
      assert.ok(!await exists(bench.root));
    });
  }
  await test.step("a program that is missing", async () => {
    const job = await bench.job("true");
    (job["spec"] as { executable: string }).executable = "no-such-harness";
    const report = notStartedOf(await bench.runner.run(job, new AgentControl()));
    assert.match(report.reason, /there is no program "no-such-harness"/);
    assert.ok(report.files["brief.md"] !== undefined);
  });
});

Deno.test("an agent whose time is over is stopped with all it started, and its work comes back", async () => {
  await using bench = await AgentBench.make();
  const pids = bench.dir.join("pids");
  const report = await bench.report(
    `echo 7 >value; setsid sleep 300 & echo $! >${pids}; (env -i setsid sh -c 'trap "" TERM; sleep 301') & sleep 300`,
    { timeout: 1 },
  );
  assert.equal(report.process.status, "timed_out");
  assert.equal(report.process.exit_code, null);
  assert.ok(report.process.seconds >= 1 && report.process.seconds < 20);
  assert.equal(await (await bench.take(report.work)).show("value"), "7\n");
  assert.deepEqual(await standing(bench), []);
});

Deno.test("what an agent left running is stopped after a clean exit", async () => {
  await using bench = await AgentBench.make();
  const report = await bench.report("setsid nohup sleep 300 >/dev/null 2>&1 &\necho 1");
  assert.equal(report.process.exit_code, 0);
  assert.deepEqual(await standing(bench), []);
});

Deno.test("an agent that is cancelled brings its work back, and says why it ended", async () => {
  await using bench = await AgentBench.make();
  const control = new AgentControl();
  const job = await bench.job("echo 8 >value; echo up; sleep 300", {}, "command");
  const running = bench.runner.run(job, control);
  await until("it is up", () => control.parts.length > 0);
  control.revoke();
  const report = finishedOf(await running);
  assert.match(report.process.error ?? "", /^stopped: the lease was revoked/);
  assert.equal(await (await bench.take(report.work)).show("value"), "8\n");
});

Deno.test("an agent that crashes brings its work back", async () => {
  await using bench = await AgentBench.make();
  const report = await bench.report(
    "echo 9 >value; kill -SEGV $$",
    {},
    new AgentControl(),
    "command",
  );
  assert.equal(report.process.exit_code, -11);
  assert.match(report.process.error ?? "", /killed by signal 11/);
  assert.equal(await (await bench.take(report.work)).show("value"), "9\n");
});

Deno.test("hooks that fail and an identity that is missing lose nothing", async () => {
  await using bench = await AgentBench.make();
  const report = await bench.report(
    "printf '#!/bin/sh\\nexit 1\\n' >$(git rev-parse --git-path hooks)/pre-commit 2>/dev/null; chmod +x $(git rev-parse --git-path hooks)/pre-commit; git config user.useConfigOnly true; echo 10 >value; git add value; git commit -qm no && exit 9; true",
  );
  assert.equal(report.process.error, null);
  const work = await bench.take(report.work);
  assert.equal(await work.show("value"), "10\n");
  assert.equal(work.recovered.at(-1), "agent#5");
});

Deno.test("an agent that is stopped before it starts is not started, and given back", async () => {
  await using bench = await AgentBench.make();
  const control = new AgentControl();
  control.revoke("the worker drains");
  const outcome = await bench.runner.run(await bench.job("true"), control);
  assert.match(notStartedOf(outcome).reason, /the worker drains/);
  assert.ok("report" in outcome && outcome.report["stopped"] === true);
});

Deno.test("a stale lease starts nothing that stays", async () => {
  await using bench = await AgentBench.make();
  const outcome = await bench.runner.run(await bench.job("sleep 300"), new AgentControl(7, false));
  assert.deepEqual(outcome, { stale: true });
  assert.deepEqual(await standing(bench), []);
});

Deno.test("an agent that a worker would leave before it started is given back", async () => {
  await using bench = await AgentBench.make();
  const control = new AgentControl();
  control.secrets = () =>
    new Promise((_, reject) =>
      control.leave.addEventListener("abort", () => reject(new SubletError("cancelled", "gone")))
    );
  const running = bench.runner.run(await bench.job("true", { secrets: { KEY: "KEY" } }), control);
  await until("it is prepared", () => exists(`${bench.root}/worktree/value`));
  control.go();
  const outcome = await running;
  assert.match(notStartedOf(outcome).reason, /the worker goes/);
  assert.ok("report" in outcome && outcome.report["stopped"] === true);
});
