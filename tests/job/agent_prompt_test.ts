/** @module Prompts to agents: in a turn that takes them, in the next one, and to agents that take none. */

import assert from "node:assert/strict";
import { until } from "../kit/mod.ts";
import { AgentBench, AgentControl, exists, finishedOf } from "./agent_kit.ts";

/** Start an agent that waits for the file `gate`, and return how to end it. */
async function waiting(
  bench: AgentBench,
  harness: string,
  script = "",
  change: (job: Record<string, unknown>) => void = () => {},
) {
  const control = new AgentControl();
  const gate = bench.dir.join("gate");
  const up = bench.dir.join("up");
  const job = await bench.job(
    `${script}: >${up}; while [ ! -e ${gate} ]; do sleep 0.02; done; rm ${gate}`,
    {},
    harness,
  );
  change(job);
  const running = bench.runner.run(job, control);
  await until("it is up", () => exists(up));
  return { running, open: () => Deno.writeTextFile(gate, ""), job, control };
}

Deno.test("where no session tells, the transcript is what all turns printed", async () => {
  await using bench = await AgentBench.make();
  const { running, open } = await waiting(bench, "command", "printf one; ", (job) => {
    (job["spec"] as { resume_args: string[] }).resume_args = ["-c", "echo two"];
  });
  assert.equal(await bench.runner.prompt(7, { id: 31, text: "go on" }), null);
  await open();
  const report = finishedOf(await running);
  assert.deepEqual(report.read, [31]);
  assert.equal(await bench.read(report.files["transcript.txt"]), "one\ntwo\n");
});

Deno.test("prompts that came during a turn are the next one, of the same session", async (test) => {
  for (const harness of ["claude", "codex", "pi"]) {
    await test.step(harness, async () => {
      await using bench = await AgentBench.make();
      const { running, open, control } = await waiting(bench, harness);
      assert.equal(await bench.runner.prompt(7, { id: 31, text: "$ echo first >>said" }), null);
      assert.equal(await bench.runner.prompt(7, { id: 32, text: "$ echo second >>said" }), null);
      // Read again by a worker that did not hear that its answer arrived.
      assert.equal(await bench.runner.prompt(7, { id: 31, text: "$ echo first >>said" }), null);
      await open();
      const report = finishedOf(await running);
      assert.equal(report.process.error, null);
      assert.deepEqual([report.read, report.unread], [[31, 32], []]);
      assert.equal(await (await bench.take(report.work)).show("said"), "first\nsecond\n");
      assert.equal(report.usage?.turns, 2);
      assert.equal(control.handles.length, 2);
      assert.equal(await bench.stream(control, "session"), await bench.read(report.session?.file));
      assert.ok(report.files["agent_session-2.stdout"] !== undefined);
      assert.equal(
        await bench.read(report.files["transcript.txt"]),
        "done with 0\ndone with 0\n",
      );
      assert.equal(
        await bench.runner.prompt(7, { id: 33, text: "late" }),
        "the agent does not run yet, or has ended",
      );
    });
  }
});

Deno.test("a turn takes prompts by the program on the agent's PATH, as lines and as a hook's answer", async () => {
  await using bench = await AgentBench.make();
  const up = bench.dir.join("up");
  const take = (more: string) =>
    `: >${up}; while [ ! -s "$SUBLET_MESSAGES" ]; do sleep 0.02; done; sublet agent messages ${more} >>said`;
  const job = await bench.job(
    [take(""), take("--format claude-hook"), "sublet agent messages >>said"].join("\n"),
  );
  const running = bench.runner.run(job, new AgentControl());
  const text = `It's "here": \\ %s $(x) \u00e9\n\ttwo lines`;
  for (const id of [1, 2]) {
    await until("it waits", () => exists(up));
    await Deno.remove(up);
    assert.equal(await bench.runner.prompt(7, { id, text }), null);
  }
  const report = finishedOf(await running);
  assert.deepEqual([report.read, report.unread], [[1, 2], []]);
  const said = await (await bench.take(report.work)).show("said");
  const hook = { hookSpecificOutput: { hookEventName: "PostToolUse", additionalContext: text } };
  assert.equal(said, `${text}\n${JSON.stringify(hook)}\n`);
});

Deno.test("prompts to a turn that fails wait in vain, and the report says so", async () => {
  await using bench = await AgentBench.make();
  const { running, open } = await waiting(bench, "claude", "trap 'exit 4' EXIT; ");
  await bench.runner.prompt(7, { id: 31, text: "go on" });
  await open();
  const report = finishedOf(await running);
  assert.equal(report.process.exit_code, 4);
  assert.deepEqual([report.read, report.unread], [[], [31]]);
});

Deno.test("an agent that cannot go on with a session takes no prompts", async () => {
  await using bench = await AgentBench.make();
  const { running, open } = await waiting(bench, "command");
  assert.match(await bench.runner.prompt(7, { id: 31, text: "go on" }) ?? "", /takes no prompts/);
  await open();
  assert.deepEqual(finishedOf(await running).unread, []);
});

Deno.test("a prompt that comes while an agent is prepared is its second turn", async () => {
  await using bench = await AgentBench.make();
  const control = new AgentControl();
  let go: (values: ReadonlyMap<string, string>) => void = () => {};
  control.secrets = () => new Promise((resolve) => go = resolve);
  const job = await bench.job("echo one >>said", { secrets: { KEY: "KEY" } });
  const running = bench.runner.run(job, control);
  await until(
    "it is known",
    async () => await bench.runner.prompt(7, { id: 31, text: "$ echo two >>said" }) === null,
  );
  go(new Map([["KEY", "v"]]));
  await until("it is asked", () => (go(new Map([["KEY", "v"]])), control.handles.length > 0));
  const report = finishedOf(await running);
  assert.equal(await (await bench.take(report.work)).show("said"), "one\ntwo\n");
});

Deno.test("a prompt that no argument can hold goes through a file", async () => {
  await using bench = await AgentBench.make();
  const { running, open } = await waiting(bench, "claude");
  const filler = "x".repeat(200_000);
  await bench.runner.prompt(7, { id: 31, text: `$ echo long >said\n${filler}` });
  await open();
  const report = finishedOf(await running);
  assert.equal(report.process.error, null);
  assert.equal(await (await bench.take(report.work)).show("said"), "long\n");
});

Deno.test("an agent goes on with the session that another one left, also on another machine", async (test) => {
  for (const harness of ["claude", "codex", "pi"]) {
    await test.step(harness, async () => {
      await using bench = await AgentBench.make();
      const first = await bench.report("echo one", {}, new AgentControl(), harness);
      assert.ok(first.session !== null && first.session_id !== null);
      await Deno.remove(bench.env["HOME"] ?? "", { recursive: true });
      const job = await bench.job("true", {
        session_id: first.session_id,
        place: "agent_sessions/6",
        resume: { session_id: first.session_id, ...first.session },
      }, harness);
      const spec = job["spec"] as { args: string[]; resume_args: string[] };
      const id = first.session_id;
      spec.args = spec.resume_args.map((arg) =>
        arg.replace("{prompt}", "$ echo two >said").replace("{session_id}", id)
      );
      const second = finishedOf(await bench.runner.run(job, new AgentControl(8)));
      assert.equal(second.process.error, null);
      assert.equal(await (await bench.take(second.work)).show("said"), "two\n");
      const [before, after] = [
        await bench.read(first.session.file),
        await bench.read(second.session?.file),
      ];
      assert.ok(after.startsWith(before) && after.length > before.length);
      assert.equal(second.usage?.turns, 2);
    });
  }
});
