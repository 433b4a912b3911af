/**
 * @module A real piloop 0.3.1 worker runs agents of our server. `SUBLET_TEST_PILOOP` names its executable; without it
 * these tests are skipped.
 */

import assert from "node:assert/strict";
import { until } from "../kit/mod.ts";
import { AgentCluster } from "./agent_cluster.ts";
import { PILOOP, Piloop } from "./piloop_kit.ts";

const SKIPPED = PILOOP === null ? " (SKIPPED: SUBLET_TEST_PILOOP names no piloop)" : "";

Deno.test({
  name: `a piloop worker runs our agents, takes their prompts, and brings their work${SKIPPED}`,
  ignore: PILOOP === null,
  fn: async () => {
    await using agents = await AgentCluster.make({ agents: 2 });
    const { cluster } = agents;
    await using peer = new Piloop(cluster.programs, PILOOP ?? "");
    await cluster.configureWorker("p1");
    const token = await cluster.token("p1");
    const argv = ["worker", "--server", cluster.server, "--pool", "lab"];
    peer.start("p1", argv, { PILOOP_HTTPS_TOKEN: token, ...agents.env });

    const script = [
      "echo better >value",
      "git commit --quiet --all --message better",
      "echo left >unsaved.txt",
      "mkdir -p workspace && echo shared >workspace/NOTES.md",
    ].join("; ");
    const done = await agents.ended(await agents.queue(script));
    assert.equal(done.state, "finished", done.error ?? "");
    assert.equal(done.worker, "p1");
    assert.equal(done.exit_code, 0);
    assert.ok((done.usage?.total ?? 0) > 0, "its tokens are counted");
    assert.equal(await agents.show(done, "value"), "better\n");
    assert.equal(await agents.show(done, "unsaved.txt"), "left\n");
    const notes = `${agents.root}/server/projects/1/workspace/NOTES.md`;
    assert.equal(await Deno.readTextFile(notes), "shared\n");
    assert.ok("agent_session.stdout" in done.files, Object.keys(done.files).join(" "));

    const waiting = await agents.waiting("true", "true");
    const told = await agents.sublet("prompt", String(waiting.job), "$ echo told >told.txt");
    assert.equal(told.code, 0, told.stderr);
    assert.match(told.stdout, /queued/);
    await agents.open();
    const second = await agents.ended(waiting);
    assert.equal(second.state, "finished", second.error ?? "");
    assert.equal(await agents.show(second, "told.txt"), "told\n");

    await Deno.remove(`${agents.root}/pass`);
    await Deno.remove(`${agents.root}/up`);
    const endless = await agents.waiting("echo half >half.txt");
    await cluster.programs.sublet("server", ["job", "cancel", String(endless.job)]);
    const cancelled = await agents.ended(endless);
    assert.equal(cancelled.state, "cancelled");
    assert.equal(await agents.show(cancelled, "half.txt"), "half\n");
    await until("its worker is free", async () => {
      const { jobs } = await cluster.api<{ jobs: { running: number } }>("GET", "/v1/status");
      return jobs.running === 0;
    });
  },
});
