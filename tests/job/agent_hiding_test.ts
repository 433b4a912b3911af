/** @module Secrets of agents in whatever leaves their machine. */

import assert from "node:assert/strict";
import type { Redaction } from "../../lib/job/mod.ts";
import { until } from "../kit/mod.ts";
import { AgentBench, AgentControl, exists, finishedOf } from "./agent_kit.ts";

/** Hides whole lines that hold a value: enough to see what goes through it. */
const redaction: Redaction = {
  text: (values, text) => values.reduce((all, value) => all.replaceAll(value, "[hidden]"), text),
  streams: (values) => () => {
    let held = "";
    const decoder = new TextDecoder();
    const encode = (text: string) => new TextEncoder().encode(redaction.text(values, text));
    return new TransformStream({
      transform(bytes, controller) {
        held += decoder.decode(bytes, { stream: true });
        const end = held.lastIndexOf("\n") + 1;
        if (end > 0) controller.enqueue(encode(held.slice(0, end)));
        held = held.slice(end);
      },
      flush: (controller) => controller.enqueue(encode(held)),
    });
  },
};

const SCRIPT = 'echo "key: $KEY"; echo "key: $KEY" >&2; exit 3';

function withKey(): AgentControl {
  const control = new AgentControl();
  control.secretValues = { KEY: "k-987654" };
  return control;
}

/** Everything that the store and the server were given, as text. */
async function all(bench: AgentBench, control: AgentControl, report: unknown): Promise<string> {
  const cids = JSON.stringify([report, control.parts]).match(/baf[a-z0-9]{56}/g) ?? [];
  const texts = await Promise.all(cids.map(async (cid) => {
    const bytes = await bench.cas.get(cid as Parameters<typeof bench.cas.get>[0]);
    return new TextDecoder("latin1").decode(bytes ?? undefined);
  }));
  return [JSON.stringify(report), JSON.stringify(control.parts), ...texts].join("\n");
}

Deno.test("no value of a secret is in a log, the session, the transcript, an error or a stream", async (test) => {
  for (const harness of ["claude", "command"]) {
    await test.step(harness, async () => {
      await using bench = await AgentBench.make({}, { redaction });
      const control = withKey();
      const prompt = harness === "command" ? SCRIPT : `${SCRIPT}; # k-987654`;
      const report = await bench.report(prompt, { secrets: { KEY: "KEY" } }, control, harness);
      assert.match(report.process.error ?? "", /\[hidden\]/);
      const said = await all(bench, control, report);
      assert.match(said, /\[hidden\]/);
      assert.doesNotMatch(said, /k-987654/);
      assert.equal(await bench.read(report.files["agent_session.stderr"]), "key: [hidden]\n");
      assert.ok(control.parts.length > 0);
    });
  }
});

Deno.test("what an agent wrote is kept back when the values to hide cannot be had any more, but for its work", async () => {
  await using bench = await AgentBench.make({}, { redaction });
  const control = withKey();
  const up = bench.dir.join("up");
  const job = await bench.job(`echo "key: $KEY"; echo work >said; : >${up}; sleep 300`, {
    secrets: { KEY: "KEY" },
  }, "command");
  const running = bench.runner.run(job, control);
  await until("it is up", () => exists(up));
  control.go();
  assert.deepEqual(await running, { left: true });
  const later = new AgentControl();
  const recovering = bench.restarted().recover(job, { handle: null, startedAt: null }, later);
  await until("it is taken over", () => later.handles.length > 0);
  later.revoke();
  const report = finishedOf(await recovering);
  assert.deepEqual(report.files, {});
  assert.equal(report.session, null);
  assert.deepEqual(later.parts, []);
  assert.match(report.notes.join(), /kept back/);
  assert.equal(await (await bench.take(report.work)).show("said"), "work\n");
});

const onLinux = Deno.build.os === "linux";
Deno.test(
  `no value of a secret is in what says why an agent did not start, or in its logs${
    onLinux ? "" : " (SKIPPED: it takes a loader of Linux)"
  }`,
  { ignore: !onLinux },
  async () => {
    await using bench = await AgentBench.make({}, { redaction });
    const control = withKey();
    // The loader of the first program complains of a library that is not there, by its name.
    const job = await bench.job("true", { secrets: { LD_PRELOAD: "KEY" } }, "command");
    const outcome = await bench.runner.run(job, control);
    assert.ok("report" in outcome);
    assert.equal(outcome.report["kind"], "agent_not_started");
    assert.match(String(outcome.report["reason"]), /could not start: .*\[hidden\]/);
    assert.doesNotMatch(await all(bench, control, outcome.report), /k-987654/);
    assert.doesNotMatch(JSON.stringify(bench.events), /k-987654/);
  },
);
