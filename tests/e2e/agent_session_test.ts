/** @module Agents on real workers: their work lands on the server, whatever happens to them and to their worker. */

import assert from "node:assert/strict";
import { until } from "../kit/mod.ts";
import { AgentCluster, exists } from "./agent_cluster.ts";
import { compiledFile } from "./compiled.ts";

Deno.test("two workers run agents, and their commits and unsaved work land in the campaign's repository", async () => {
  await using agents = await AgentCluster.make({ agents: 1 });
  await Promise.all([agents.worker("ada"), agents.worker("bob")]);
  const commit = "git add -A; git -c user.name=a -c user.email=a@b commit -qm saved";
  const queued = [
    await agents.queue(`echo one >one; ${commit}; echo two >two; sleep 1`),
    await agents.queue(`echo one >one; ${commit}; echo two >two; sleep 1`, "codex"),
  ];
  const ended = await Promise.all(queued.map((each) => agents.ended(each)));
  assert.deepEqual(new Set(ended.map(({ worker }) => worker)), new Set(["ada", "bob"]));
  for (const each of ended) {
    assert.equal(each.state, "finished", JSON.stringify(each));
    assert.equal(each.landed?.commits, 2);
    assert.equal(await agents.show(each, "one"), "one\n");
    assert.equal(await agents.show(each, "two"), "two\n");
    assert.ok((each.usage?.total ?? 0) > 0);
  }
});

Deno.test("an agent outlives its worker that is killed, is prompted by the next one, and attach shows all of it", async () => {
  await using agents = await AgentCluster.make();
  const token = await agents.worker("ada");
  const queued = await agents.waiting("echo begun >said", "echo more >>said");
  await until(
    "its session is on the server",
    async () =>
      (await agents.sublet("attach", String(queued.job), "--no-follow", "--raw")).stdout.includes(
        '"user"',
      ),
  );
  agents.cluster.programs.kill("ada");
  await agents.cluster.programs.ended("ada");
  await agents.restart("ada", token);
  const prompting = agents.sublet("prompt", String(queued.job), "$ echo prompted >>said");
  const prompted = await prompting;
  assert.equal(prompted.code, 0, prompted.stderr);
  await agents.open();
  const ended = await agents.ended(queued);
  assert.equal(ended.state, "finished", JSON.stringify(ended));
  assert.equal(ended.exit_code, 0);
  assert.equal(ended.usage?.turns, 2);
  assert.equal(await agents.show(ended, "said"), "begun\nmore\nprompted\n");
  const job = await agents.cluster.job(queued.job);
  assert.equal(job.leases.length, 1);
  const raw = await agents.sublet("attach", String(queued.job), "--raw");
  assert.equal(raw.stdout.match(/done with 0/g)?.length, 4);
});

Deno.test("a worker that is killed again and again, at whatever moment, loses nothing of its agents", async () => {
  await using agents = await AgentCluster.make();
  const token = await agents.worker("ada");
  // Counts while it runs: a line that was lost or doubled would show.
  const count = 'n=0; while [ ! -e "$GATE" ]; do n=$((n + 1)); echo $n >>said; sleep 0.05; done';
  const script = `GATE=${agents.root}/pass; : >${agents.root}/up; ${count}`;
  const queued = [await agents.queue(script), await agents.queue(script, "pi")];
  await Promise.all(queued.map((each) => agents.state(each, "running")));
  for (const ms of [0, 100, 400, 1_500]) {
    agents.cluster.programs.kill("ada");
    await agents.cluster.programs.ended("ada");
    await agents.restart("ada", token);
    await new Promise((resolve) => setTimeout(resolve, ms));
  }
  await agents.open();
  for (const each of queued) {
    const ended = await agents.ended(each);
    assert.equal(ended.state, "finished", JSON.stringify(ended));
    const said = (await agents.show(ended, "said")).trim().split("\n").map(Number);
    assert.deepEqual(said, said.map((_, at) => at + 1));
    const job = await agents.cluster.job(each.job);
    assert.equal(job.leases.length, 1);
    const raw = await agents.sublet("attach", String(each.job), "--raw");
    const lines = raw.stdout.trim().split("\n");
    assert.ok(lines.every((line) => JSON.parse(line) !== null));
    assert.equal(new Set(lines).size, lines.length, "no line of its session is there twice");
  }
});

const compiled = await compiledFile();

Deno.test({
  name: `in the compiled file too an agent outlives its worker and is prompted by the next one${
    compiled.skipped === null ? "" : ` (SKIPPED: ${compiled.skipped})`
  }`,
  ignore: compiled.path === null,
  async fn() {
    await using agents = await AgentCluster.make({ binary: compiled.path ?? "" });
    const token = await agents.worker("ada");
    const queued = await agents.waiting("echo begun >said", "echo more >>said", "codex");
    agents.cluster.programs.kill("ada");
    await agents.cluster.programs.ended("ada");
    await agents.restart("ada", token);
    const prompted = await agents.sublet("prompt", String(queued.job), "$ echo prompted >>said");
    assert.equal(prompted.code, 0, prompted.stderr);
    await agents.open();
    const ended = await agents.ended(queued);
    assert.equal(ended.state, "finished", JSON.stringify(ended));
    assert.equal(ended.usage?.turns, 2);
    assert.equal(await agents.show(ended, "said"), "begun\nmore\nprompted\n");
  },
});

Deno.test("an agent that ended while its worker was down is reported by the next one", async () => {
  await using agents = await AgentCluster.make();
  const token = await agents.worker("ada");
  const queued = await agents.waiting(
    "echo begun >said",
    `echo more >>said; : >${"$"}SUBLET_HOME/over`,
  );
  agents.cluster.programs.kill("ada");
  await agents.cluster.programs.ended("ada");
  await agents.open();
  await until("it has ended", () => exists(`${agents.root}/ada/over`));
  await agents.restart("ada", token);
  const ended = await agents.ended(queued);
  assert.equal(ended.state, "finished", JSON.stringify(ended));
  assert.equal(await agents.show(ended, "said"), "begun\nmore\n");
});

Deno.test("a worker that is told to leave leaves its agents to the next one", async () => {
  await using agents = await AgentCluster.make();
  const token = await agents.worker("ada");
  const queued = await agents.waiting("echo begun >said", "echo more >>said");
  Deno.kill(agents.cluster.programs.pid("ada"), "SIGUSR1");
  assert.equal(await agents.cluster.programs.ended("ada"), 0);
  await agents.restart("ada", token);
  await agents.open();
  const ended = await agents.ended(queued);
  assert.equal(ended.state, "finished", JSON.stringify(ended));
  assert.equal(await agents.show(ended, "said"), "begun\nmore\n");
});

Deno.test("a server that restarts in place stops no agent, its own worker's neither", async () => {
  await using agents = await AgentCluster.make({ serveAgents: 1 });
  const queued = await agents.waiting(
    "echo begun >said",
    "echo more >>said",
    "claude",
    "--pool",
    "serve",
  );
  const { code, stderr } = await agents.sublet("restart");
  assert.equal(code, 0, stderr);
  await agents.open();
  const ended = await agents.ended(queued);
  assert.equal(ended.state, "finished", JSON.stringify(ended));
  assert.equal(await agents.show(ended, "said"), "begun\nmore\n");
  assert.equal((await agents.sublet("stop")).code, 0);
});

Deno.test("an agent is cancelled, runs out of time, crashes: its work lands all the same", async (test) => {
  await using agents = await AgentCluster.make();
  await agents.worker("ada");
  await test.step("cancelled", async () => {
    const queued = await agents.waiting("echo one >said");
    assert.equal((await agents.sublet("job", "cancel", String(queued.job))).code, 0);
    const ended = await agents.ended(queued);
    assert.equal(ended.state, "cancelled", JSON.stringify(ended));
    assert.equal(await agents.show(ended, "said"), "one\n");
  });
  await test.step("out of time", async () => {
    const queued = await agents.queue("echo two >said; sleep 300", "claude", "--timeout", "2s");
    const ended = await agents.ended(queued);
    assert.equal(ended.timed_out, true, JSON.stringify(ended));
    assert.equal(await agents.show(ended, "said"), "two\n");
  });
  await test.step("crashed", async () => {
    const queued = await agents.queue("echo three >said; kill -9 $PPID; kill -9 $$", "claude");
    const ended = await agents.ended(queued);
    assert.equal(ended.state, "failed", JSON.stringify(ended));
    assert.equal(await agents.show(ended, "said"), "three\n");
  });
});

Deno.test("a prompt to an agent that has ended goes on with its session, on another worker too", async () => {
  await using agents = await AgentCluster.make({ agents: 1 });
  await agents.worker("ada");
  const first = await agents.ended(await agents.queue("echo one >said"));
  assert.equal(first.state, "finished", JSON.stringify(first));
  await agents.worker("bob");
  const prompted = await agents.sublet("prompt", String(first.job), "$ echo two >>said", "--json");
  assert.equal(prompted.code, 0, prompted.stderr);
  const next = await until("another agent goes on", async () => {
    const { agents: all } = await agents.cluster.api<{ agents: typeof first[] }>(
      "GET",
      "/v1/agents",
    );
    return all.find(({ agent }) => agent !== first.agent) ?? null;
  });
  const second = await agents.ended(next);
  assert.equal(second.state, "finished", JSON.stringify(second));
  assert.equal(second.session_id, first.session_id);
  assert.equal(await agents.show(second, "said"), "one\ntwo\n");
  assert.deepEqual([second.usage?.turns, second.session_usage?.turns], [1, 2]);
  const { stdout } = await agents.sublet("job", "show", String(second.job));
  assert.match(stdout, /^tokens\t130 in 1 turn$/m);
  assert.match(stdout, /^session tokens\t260 in 2 turns, with those before agent 2$/m);
});

Deno.test("two agents that change one file of the workspace lose neither's", async () => {
  await using agents = await AgentCluster.make();
  await agents.worker("ada");
  const queued = await agents.waiting("echo mine >workspace/notes");
  const other = await agents.ended(await agents.queue("echo theirs >workspace/notes", "pi"));
  assert.equal(other.state, "finished", JSON.stringify(other));
  await agents.open();
  const ended = await agents.ended(queued);
  assert.match(Object.keys(ended.landed?.workspace.beside ?? {}).join(), /^notes$/);
});

Deno.test("an agent whose lease was lost while its worker was down is stopped, and its work is not lost", async () => {
  await using agents = await AgentCluster.make({ patient: false });
  const token = await agents.worker("ada");
  const queued = await agents.waiting("echo begun >said; echo $$ >$SUBLET_HOME/pid");
  agents.cluster.programs.kill("ada");
  await agents.cluster.programs.ended("ada");
  const lost = await agents.ended(queued);
  assert.equal(lost.state, "lost", JSON.stringify(lost));
  const pid = Number(await Deno.readTextFile(`${agents.root}/ada/pid`));
  assert.ok(await exists(`/proc/${pid}`), "it runs on meanwhile");
  await agents.restart("ada", token);
  await until(
    "what it did is handed in",
    async () =>
      (await agents.sublet("job", "show", String(queued.job))).stdout.includes("stale_report"),
  );
  assert.ok(!await exists(`/proc/${pid}`), "it was stopped");
  const { code, stderr } = await agents.sublet("job", "recover", String(queued.job));
  assert.equal(code, 0, stderr);
  const recovered = await until("it lands", async () => {
    const now = await agents.agent(queued);
    return now.landed?.ref === undefined || now.landed.ref === null ? null : now;
  });
  assert.equal(await agents.show(recovered, "said"), "begun\n");
});
