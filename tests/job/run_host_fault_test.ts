/** @module What a full disk of the worker does to an evaluation: it is lost, not failed, and its result is kept. */

import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import { Bench, Control, reportOf } from "./run_kit.ts";

const FULL = Object.assign(new Error("No space left on device (os error 28)"), { code: "ENOSPC" });

Deno.test("a checkout that the disk has no room for is no failure of the candidate", async () => {
  await using bench = await Bench.make();
  bench.refusal = new SubletError("unavailable", "cannot write the clone", { cause: FULL });
  await assert.rejects(bench.runner.run(bench.job("true"), new Control()), bench.refusal);
  assert.equal(bench.sends, 1);
});

Deno.test("a process that could not start for the disk is no failure of the candidate", async () => {
  await using bench = await Bench.make();
  const refusal = new SubletError("failed", "sh could not start: No space left on device");
  bench.processes.start = () => Promise.reject(refusal);
  await assert.rejects(bench.runner.run(bench.job("true"), new Control()), refusal);
});

Deno.test("a result whose logs this disk has no room for is reported at once, without them", async () => {
  await using bench = await Bench.make();
  let puts = 0;
  const noRoom = () => {
    puts++;
    return Promise.reject(new SubletError("unavailable", "cannot write", { cause: FULL }));
  };
  const { start } = bench.processes;
  bench.processes.start = (spec) => {
    bench.cas.put = noRoom;
    return start.call(bench.processes, spec);
  };
  const outcome = await bench.runner.run(bench.job("echo METRIC score=1"), new Control());
  const report = reportOf(outcome);
  assert.deepEqual([report.samples[0]?.metrics, report.files], [{ score: 1 }, {}]);
  assert.ok(puts > 0);
  const notes = bench.events.filter(({ event }) => event === "evaluation.logs_not_stored");
  assert.deepEqual(notes.map(({ fields }) => fields["again"]), [false]);
});
