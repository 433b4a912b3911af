/** @module `sublet job logs -f`: what an evaluation prints on another machine, while it runs. */

import assert from "node:assert/strict";
import { until } from "../kit/mod.ts";
import { Cluster, PATIENT } from "./cluster.ts";

const SCRIPT = `echo "before the gate"
while [ ! -e "$1/gate" ]; do sleep 0.05; done
echo "METRIC score=$(cat value)"
`;

Deno.test("job logs -f prints what an evaluation writes while it runs, and ends with it", async () => {
  await using cluster = await Cluster.make({ timing: PATIENT });
  await cluster.serve();
  await cluster.serveCas();
  await cluster.campaign([7], SCRIPT);
  await cluster.worker("ant");
  const [queued] = await cluster.queue("HEAD");
  assert.ok(queued !== undefined);
  const following = cluster.programs.finish("server", ["job", "logs", String(queued.job), "-f"]);
  const one = "candidate-0/eval.stdout";
  const first = await until("its output is here while it runs", async () => {
    const { streams } = await cluster.api<{ streams: { stream: string; over: boolean }[] }>(
      "GET",
      `/v1/jobs/${queued.job}/streams`,
    );
    return streams.find(({ stream }) => stream === one) ?? null;
  }, 60);
  assert.equal(first.over, false);
  await cluster.open();
  const { code, stdout, stderr } = await following;
  assert.equal(code, 0, stderr);
  assert.equal(stdout, "before the gate\nMETRIC score=7\n");
  assert.match(stderr, /==> candidate-0\/eval\.stdout <==/);
  const again = await cluster.programs.sublet("server", ["job", "logs", String(queued.job), one]);
  assert.equal(again, stdout);
});
