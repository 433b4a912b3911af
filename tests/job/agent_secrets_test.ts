/** @module What the worker of an agent's job gets of the home's secrets: those that the job names, while its lease holds. */

import assert from "node:assert/strict";
import { systemClock } from "../../lib/home/mod.ts";
import { AgentSecrets } from "../../lib/job/mod.ts";
import { LeaseRoutes } from "../../lib/lease/mod.ts";
import { LocalSecrets, SealingKey } from "../../lib/secret/mod.ts";
import { ApiKit, HandWorker } from "../web/api_kit.ts";

const secrets = new LocalSecrets(new SealingKey(new Uint8Array(32).fill(7)), systemClock);

/** Ask for the secrets of `lease` as the worker `name` does. */
async function ask(api: ApiKit, name: string, lease: number) {
  const { db, cas } = api.kit;
  const given = new AgentSecrets(db, cas, secrets);
  const caller = { name, access: "worker", pool: null } as const;
  const who = { known: () => caller, identify: () => Promise.resolve(caller) };
  const routes = new LeaseRoutes(api.engine, who, {
    version: "9.9.9",
    send: () => Promise.resolve([]),
    secrets: {
      kind: "agent",
      names: (job) => given.names(job.id),
      values: (tx, job, names) => given.values(tx, job.key, names),
    },
  });
  const request = new Request("http://server/v1/executor/secrets", {
    method: "POST",
    body: JSON.stringify({ lease }),
  });
  const response = await routes.answer(request, { address: "10.0.0.1", unix: false });
  return { status: response?.status, json: await response?.json() };
}

/** An API with a campaign, an agent that names two secrets, and a worker that holds its lease. */
async function running() {
  const api = await ApiKit.make();
  await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  const asked = await api.owner("POST", "/v1/agents", {
    campaign: "demo",
    prompt: "do it",
    secrets: { KEY: "OWN", TOKEN: "SHARED", LACKING: "NOT_SET" },
  });
  assert.equal(asked.status, 201, JSON.stringify(asked.json));
  const worker = new HandWorker(api);
  await worker.register();
  return { api, worker, lease: (await worker.start()).lease };
}

Deno.test("a worker gets the secrets that its agent names, the campaign's before the home's, and no others", async () => {
  const { api, lease } = await running();
  await using _api = api;
  await api.kit.db.write(async (tx) => {
    await secrets.put(tx, null, "OWN", "the home's own", "me");
    await secrets.put(tx, 1, "OWN", "the campaign's own", "me");
    await secrets.put(tx, null, "SHARED", "the home's shared", "me");
    await secrets.put(tx, null, "OTHER", "nobody asked", "me");
  });
  const { status, json } = await ask(api, "w1", lease);
  assert.deepEqual([status, json], [200, {
    OWN: "the campaign's own",
    SHARED: "the home's shared",
  }]);
});

Deno.test("another worker, another lease, one that is over, and an evaluation get none", async () => {
  const { api, worker, lease } = await running();
  await using _api = api;
  await api.kit.db.write((tx) => secrets.put(tx, null, "OWN", "the home's own", "me"));
  const other = new HandWorker(api, "w2");
  await other.register();
  await api.owner("POST", "/v1/evaluations", { campaign: "demo", revisions: ["HEAD"] });
  const evaluation = await other.start();
  const refused = [["w2", lease], ["w1", lease + 1000], ["w2", evaluation.lease]] as const;
  for (const [name, asked] of refused) {
    const { status, json } = await ask(api, name, asked);
    assert.deepEqual([status, json.error], [409, "stale_lease"], `${name} ${asked}`);
  }
  await api.engine.report(worker.caller, lease, crypto.randomUUID(), {
    kind: "agent_finished",
    process: { status: "exited", seconds: 1, exit_code: 0 },
    read: [],
  });
  assert.equal((await ask(api, "w1", lease)).json.error, "stale_lease");
});

Deno.test("a secret that does not open fails the call, and says which", async () => {
  const { api, lease } = await running();
  await using _api = api;
  await api.kit.db.write(async (tx) => {
    await secrets.put(tx, null, "OWN", "the home's own", "me");
    await tx.run("UPDATE secrets SET key_id = 'another'");
  });
  const { status, json } = await ask(api, "w1", lease);
  assert.ok(status !== undefined && status >= 400, String(status));
  assert.match(json.detail, /OWN.*set the secret again/);
});
