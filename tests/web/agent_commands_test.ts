/** @module The commands of agents: their own campaign's, from a list, and nothing else. */

import assert from "node:assert/strict";
import { nullLog } from "../../lib/home/mod.ts";
import { LeaseRoutes } from "../../lib/lease/mod.ts";
import { AgentCommands } from "../../lib/web/mod.ts";
import { ApiKit, HandWorker } from "./api_kit.ts";

/** An API with a campaign, and an agent whose worker w1 holds its lease. */
async function running() {
  const api = await ApiKit.make();
  await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  const asked = await api.owner("POST", "/v1/agents", { campaign: "demo", prompt: "do it" });
  const worker = new HandWorker(api);
  await worker.register();
  const { lease } = await worker.start();
  const { engine, kit: { evaluations, agents, cas } } = api;
  const commands = new AgentCommands({ engine, evaluations, agents, cas, log: nullLog });
  const ask = async (name: string, under: number, argv: string[]) => {
    const caller = { name, access: "worker", pool: null } as const;
    const who = { known: () => caller, identify: () => Promise.resolve(caller) };
    const send = () => Promise.resolve([]);
    const routes = new LeaseRoutes(engine, who, { version: "9.9.9", send, commands });
    const request = new Request("http://server/v1/executor/cli", {
      method: "POST",
      body: JSON.stringify({ lease: under, argv, stdin: null }),
    });
    const response = await routes.answer(request, { address: "10.0.0.1", unix: false });
    return { status: response?.status, json: await response?.json() };
  };
  /** The document that a command prints. */
  const run = async (...argv: string[]) => {
    const { status, json } = await ask("w1", lease, argv);
    assert.equal(status, 200);
    return json.exit_code === 0 ? JSON.parse(json.stdout) : json;
  };
  return { api, worker, lease, job: asked.json.job as number, ask, run };
}

Deno.test("an agent sees its campaign, its jobs and their logs, and asks for evaluations", async () => {
  const { api, job, run } = await running();
  await using _api = api;
  assert.equal((await run("status")).campaign, "demo");
  const { evaluations } = await run("eval", "HEAD", "--repeats", "2", "--no-wait");
  assert.deepEqual([evaluations.length, evaluations[0].repeats], [1, 2]);
  const jobs = (await run("job", "list")).map(({ job }: { job: number }) => job);
  assert.deepEqual(jobs, [evaluations[0].job, job]);
  assert.equal((await run("job", "show", String(job))).agent.prompt, "do it");
  assert.deepEqual(await run("job", "logs", String(job)), { files: {} });
});

Deno.test("what is not on the list, or not of its shape, is refused with the list or the usage", async () => {
  const { api, run } = await running();
  await using _api = api;
  const refused: [string[], RegExp][] = [
    [[], /no command of agents.*sublet job list.*sublet eval/s],
    [["token", "create", "me"], /no command of agents/],
    [["secret", "list"], /no command of agents/],
    [["job", "cancel", "1"], /no command of agents/],
    [["sql", "SELECT 1"], /no command of agents/],
    [["job", "show"], /sublet job show JOB/],
    [["job", "show", "1;2"], /no job's number/],
    [["job", "show", "__proto__"], /no job's number/],
    [["eval"], /sublet eval REVISION/],
    [["eval", "HEAD", "--repeats", "0"], /from 1 to 1000/],
    [["eval", "HEAD", "--repeats", "1001"], /from 1 to 1000/],
    [["eval", "HEAD", "--pool", "lab"], /sublet eval REVISION/],
    [["eval", "--upload-pack=x"], /sublet eval REVISION/],
  ];
  for (const [argv, expected] of refused) {
    const { exit_code, stderr } = await run(...argv);
    assert.equal(exit_code, 2, argv.join(" "));
    assert.match(stderr, expected, argv.join(" "));
  }
  assert.equal((await run("job", "show", "999")).exit_code, 5);
  assert.equal((await run("job", "logs", "1", "../../etc/passwd")).exit_code, 5);
});

Deno.test("another campaign's jobs are not there", async () => {
  const { api, job, run } = await running();
  await using _api = api;
  await api.kit.db.write(async (tx) => {
    await tx.run(
      `INSERT INTO campaigns (id, name, path, config, evaluator, created_at, updated_at)
       SELECT 77, 'other', '/other', config, evaluator, 0, 0 FROM campaigns WHERE id = 1`,
    );
    await tx.run("UPDATE jobs SET campaign = 77 WHERE id = ?", [job]);
  });
  assert.equal((await run("job", "show", String(job))).exit_code, 5);
  assert.deepEqual(await run("job", "list"), []);
});

Deno.test("the fence holds: no command under another worker's lease, an old one, or an evaluation's", async () => {
  const { api, worker, lease, ask } = await running();
  await using _api = api;
  const other = new HandWorker(api, "w2");
  await other.register();
  await api.owner("POST", "/v1/evaluations", { campaign: "demo", revisions: ["HEAD"] });
  const evaluation = await other.start();
  for (
    const [name, under] of [["w2", lease], ["w1", lease + 99], ["w2", evaluation.lease]] as const
  ) {
    const { status, json } = await ask(name, under, ["status"]);
    assert.deepEqual([status, json.error], [409, "stale_lease"], `${name} ${under}`);
  }
  await api.engine.report(worker.caller, lease, crypto.randomUUID(), {
    kind: "agent_finished",
    process: { status: "exited", seconds: 1, exit_code: 0 },
    read: [],
  });
  assert.equal((await ask("w1", lease, ["status"])).json.error, "stale_lease");
});
