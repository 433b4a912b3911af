/** @module What an evaluation prints while it runs, on its way to whoever reads along. */

import assert from "node:assert/strict";
import type { SavedPart } from "../../lib/job/mod.ts";
import { until } from "../kit/mod.ts";
import { Bench, Control, reportOf } from "./run_kit.ts";

type Part = Omit<SavedPart, "lease">;

/** A control whose server takes what is written, or not. */
class LiveControl extends Control {
  readonly parts: Part[] = [];
  answer: () => Promise<boolean> = () => Promise.resolve(true);

  async saved(part: Part): Promise<boolean> {
    if (!await this.answer()) return false;
    this.parts.push(part);
    return true;
  }
}

Deno.test("what a run prints shows while it runs, by the names that its report will have", async () => {
  await using bench = await Bench.make({ everyMs: 20 });
  const control = new LiveControl();
  const gate = bench.dir.join("gate");
  const job = bench.job(
    `echo working; while [ ! -e ${gate} ]; do sleep 0.02; done; echo METRIC score=1`,
  );
  const running = bench.runner.run(job, control);
  await until("the first line shows", () => control.parts.length > 0);
  assert.deepEqual(
    control.parts.map(({ stream, offset, bytes }) => [stream, offset, bytes]),
    [["candidate-0/eval.stdout", 0, 8]],
  );
  await Deno.writeTextFile(gate, "");
  const report = reportOf(await running);
  assert.ok(report.files["candidate-0/eval.stdout"] !== undefined);
});

Deno.test("a server that does not answer who reads along delays no evaluation", async () => {
  await using bench = await Bench.make({ everyMs: 10 });
  const control = new LiveControl();
  let asked = false;
  control.answer = () => {
    asked = true;
    return new Promise(() => {});
  };
  const job = bench.job("echo working; sleep 0.3; echo METRIC score=1");
  const report = reportOf(await bench.runner.run(job, control));
  assert.equal(report.samples[0]?.error, null);
  assert.ok(asked);
});
