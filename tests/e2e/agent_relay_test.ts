/** @module An agent on a worker elsewhere: its commands reach the server, its secret reaches it, and leaves it nowhere. */

import assert from "node:assert/strict";
import { AgentCluster } from "./agent_cluster.ts";

const VALUE = "a value/that+leaves?nowhere";

Deno.test("an agent's commands go through its worker, and its secret stays out of all that it leaves", async () => {
  await using agents = await AgentCluster.make();
  await agents.worker("ada");
  await agents.cluster.api("PUT", "/v1/secrets/API_KEY", { value: VALUE });
  const script = [
    "sublet status >status.json",
    "sublet job list >jobs.json",
    'sublet token create me >refused 2>&1; echo "exit $?" >>refused',
    'sublet secret list >>refused 2>&1; echo "exit $?" >>refused',
    'echo "plain $API_KEY"',
    'printf %s "$API_KEY" | base64',
    'test "$(printf %s "$API_KEY" | wc -c)" = 27 && echo it has it >has',
  ].join("; ");
  const queued = await agents.queue(script, "claude", "--secret", "API_KEY");
  const ended = await agents.ended(queued);
  assert.equal(ended.state, "finished", JSON.stringify(ended));
  assert.equal(JSON.parse(await agents.show(ended, "status.json")).campaign, "steps");
  const jobs = JSON.parse(await agents.show(ended, "jobs.json"));
  assert.ok(jobs.some(({ job }: { job: number }) => job === queued.job));
  const refused = await agents.show(ended, "refused");
  assert.equal(refused.match(/no command of agents/g)?.length, 2, refused);
  assert.equal(refused.match(/exit 2/g)?.length, 2, refused);
  assert.equal(await agents.show(ended, "has"), "it has it\n");
  const raw = await agents.sublet("attach", String(queued.job), "--raw", "--no-follow");
  const logs = await Promise.all(
    Object.keys(ended.files).map(async (file) =>
      (await agents.sublet("job", "logs", String(queued.job), file)).stdout
    ),
  );
  assert.ok(logs.some((text) => text.includes("plain [secret]")), logs.join("\n"));
  for (const text of [raw.stdout, ...logs]) {
    for (const form of [VALUE, btoa(VALUE), encodeURIComponent(VALUE)]) {
      assert.ok(!text.includes(form), text);
    }
  }
});
