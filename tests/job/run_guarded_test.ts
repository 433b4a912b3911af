/** @module Evaluations whose processes a supervisor judges: every call of git that they need is let through. */

import assert from "node:assert/strict";
import { storeTree } from "../../lib/cas/mod.ts";
import { EvaluationRunner } from "../../lib/job/mod.ts";
import { GuardedProcesses } from "../../lib/lease/machine/guarded_processes.ts";
import { systemProcesses } from "../../lib/lease/machine/processes.ts";
import { foreignGitCall, GIT_ENV, LEADING } from "../../lib/vcs/mod.ts";
import { Bench, Control, reportOf } from "./run_kit.ts";

Deno.test("an evaluation with a bar and inputs runs under a supervisor, twice, and is cleaned up", async () => {
  await using bench = await Bench.make();
  const home = await Deno.realPath(bench.dir.join("home"));
  await Deno.mkdir(bench.dir.join("data"));
  await Deno.writeTextFile(bench.dir.join("data/x"), "1");
  const { manifest } = await storeTree(bench.cas, bench.dir.join("data"));
  const processes = new GuardedProcesses(systemProcesses(), home);
  // The server's side of a transfer is no worker's: it keeps its own processes.
  const guarded = new EvaluationRunner({ ...bench.site, home, processes }, { graceMs: 200 });
  for (const lease of [7, 8]) {
    const revision = await bench.commit({ value: `${lease}\n` });
    const artifact = bench.source({ revision, links: { data: manifest } });
    const job = bench.job("echo METRIC score=$(cat value)", {
      artifact,
      bar: { candidate: 1, artifact: bench.source() },
    });
    const report = reportOf(await guarded.run(job, new Control(lease)));
    assert.deepEqual(report.samples[0]?.error, null);
    assert.deepEqual(report.bar_samples[0]?.metrics, { score: 1 });
    await guarded.cleanup(job, lease);
  }
});

Deno.test("a call of git that is not ours is told from those that are", () => {
  const foreign = (args: string[], env = GIT_ENV) => foreignGitCall([...LEADING, ...args], env);
  assert.equal(foreign(["-c", "filter.lfs.smudge=", "--git-dir=/x", "cat-file", "--batch"]), null);
  for (
    const args of [
      ["log", "--output=/etc/x"],
      ["log", "--outp=/etc/x"],
      ["log", "-p", "--ext-diff"],
      ["cat-file", "--filters", "HEAD:a"],
      ["cat-file", "--textconv", "HEAD:a"],
      ["init", "--template=/x", "y"],
      ["config", "alias.x", "!true"],
      ["upload-pack", "/x"],
      ["fetch", "ext::true"],
      ["-c", "core.fsmonitor=/x", "version"],
      ["-c", "filter.lfs.smudge=true", "version"],
      ["-C", "/", "version"],
      [],
    ]
  ) assert.notEqual(foreign(args), null, args.join(" "));
  assert.notEqual(foreign(["version"], { ...GIT_ENV, GIT_SSH_COMMAND: "x" }), null);
  assert.notEqual(foreign(["version"], {}), null);
});
