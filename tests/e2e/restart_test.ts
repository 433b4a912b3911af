/** @module `sublet restart`: a server comes back where it was, and remote and local jobs are measured once. */

import assert from "node:assert/strict";
import { Cluster } from "./cluster.ts";

async function pidOf(cluster: Cluster): Promise<number> {
  const { server } = await cluster.api<{ server: { pid: number } }>("GET", "/v1/status");
  return server.pid;
}

Deno.test("a restart keeps remote jobs running and gives the server's own back", async () => {
  await using cluster = await Cluster.make({ serveEvaluations: 1 });
  await cluster.serve();
  await cluster.serveCas();
  const revisions = await cluster.campaign([1, 2]);
  await cluster.worker("ant");
  const queued = await cluster.queue(...revisions);
  await cluster.runsReach(2);
  const before = await pidOf(cluster);
  await cluster.programs.sublet("server", ["restart"]);
  try {
    const after = await pidOf(cluster);
    assert.notEqual(after, before);
    const { server } = await cluster.api<{ server: { urls: string[] } }>("GET", "/v1/status");
    assert.ok(server.urls.includes(cluster.server), `${server.urls} lacks ${cluster.server}`);
    await cluster.runsReach(3);
    await cluster.open();
    for (const [index, each] of queued.entries()) {
      const result = await cluster.ended(each);
      assert.deepEqual([result.state, result.metrics], ["measured", { score: index + 1 }]);
      const { leases } = await cluster.job(each.job);
      assert.equal(leases.filter(({ state }) => state === "reported").length, 1);
      assert.equal(leases.length, result.worker === "ant" && leases.length === 1 ? 1 : 2);
    }
    assert.equal((await cluster.runs()).length, 3, "the remote job ran once, the local one twice");
  } finally {
    await cluster.programs.sublet("server", ["stop"]);
  }
});

Deno.test("a server that could not start again is not stopped", async () => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  const before = await pidOf(cluster);
  const config = `${cluster.root}/server/config.toml`;
  const text = await Deno.readTextFile(config);
  await Deno.writeTextFile(config, text.replace("grace_seconds = 1.5", "grace_seconds = 100"));
  const { code, stderr } = await cluster.programs.finish("server", ["restart"]);
  assert.equal(code, 2, stderr);
  assert.match(stderr, /not restarted, and keeps running.*grace_seconds/s);
  assert.equal(await pidOf(cluster), before);
});

Deno.test("nothing to restart is not found", async () => {
  await using cluster = await Cluster.make();
  const { code, stderr } = await cluster.programs.finish("server", ["restart"]);
  assert.equal(code, 5, stderr);
});
