import assert from "node:assert/strict";
import { SESSION_STREAM } from "../../lib/job/mod.ts";
import { ApiKit, HandWorker } from "./api_kit.ts";
import { sure } from "../job/campaign_kit.ts";

const encoder = new TextEncoder();

/** An API with a campaign. */
async function withCampaign(): Promise<ApiKit> {
  const api = await ApiKit.make();
  await api.owner("POST", "/v1/campaigns", { path: api.kit.repo.path });
  return api;
}

/** Text of a stream, as a worker sends it. */
async function save(api: ApiKit, worker: HandWorker, lease: number, offset: number, text: string) {
  const blob = await api.kit.cas.put(encoder.encode(text));
  const bytes = encoder.encode(text).length;
  const part = { lease, stream: SESSION_STREAM, offset, bytes, blob, usage: null, session: null };
  await api.engine.holding(
    worker.caller,
    lease,
    (tx, job) => api.kit.streams.append(tx, job.id, part),
  );
}

function says(text: string): string {
  return JSON.stringify({ type: "assistant", message: { content: [{ type: "text", text }] } }) +
    "\n";
}

async function stream(api: ApiKit, job: number, query = "", name = SESSION_STREAM) {
  const response = await api.raw(`/v1/jobs/${job}/streams/${name}${query}`);
  const text = await response.text();
  const { headers, status } = response;
  return {
    status,
    text,
    from: Number(headers.get("sublet-from")),
    next: Number(headers.get("sublet-next")),
    over: headers.get("sublet-over"),
  };
}

Deno.test("POST /v1/agents queues an agent, which lists and its job show", async () => {
  await using api = await withCampaign();
  const { status, json } = await api.owner("POST", "/v1/agents", {
    campaign: "demo",
    prompt: "do it",
    timeout: 60,
    secrets: { KEY: "OTHER" },
    labels: ["gpu"],
    pool: "lab",
  });
  assert.equal(status, 201);
  assert.deepEqual([json.state, json.prompt, json.timeout], ["waiting", "do it", 60]);
  const list = await api.owner("GET", "/v1/agents?campaign=demo&state=waiting");
  assert.deepEqual(list.json.agents.map(({ agent }: { agent: number }) => agent), [json.agent]);
  const shown = await api.owner("GET", `/v1/agents/${json.agent}`);
  assert.deepEqual(shown.json, json);
  const job = await api.owner("GET", `/v1/jobs/${json.job}`);
  assert.deepEqual(job.json.agent, json);
  assert.deepEqual(job.json.requires, { pool: "lab", runner: null, labels: ["gpu"] });
  assert.equal(job.json.evaluation, null);
});

Deno.test("POST /v1/agents refuses what it cannot do, and queues nothing", async () => {
  await using api = await withCampaign();
  for (
    const [body, status] of [
      [{ campaign: "demo" }, 422],
      [{ prompt: "x" }, 422],
      [{ campaign: "demo", prompt: "x", path: "/x" }, 422],
      [{ campaign: "demo", prompt: "x", secrets: { "a b": "C" } }, 422],
      [{ campaign: "demo", prompt: "x", timeout: 0 }, 422],
      [{ campaign: "demo", prompt: "x", pool: "moon" }, 404],
      [{ campaign: "demo", prompt: "x", base: "--upload-pack=x" }, 400],
      [{ campaign: "demo", prompt: "x", harness: "vi" }, 404],
      [{ campaign: "nothing", prompt: "x" }, 404],
    ] as const
  ) {
    const answer = await api.owner("POST", "/v1/agents", body);
    assert.equal(answer.status, status, JSON.stringify([body, answer.json]));
  }
  assert.deepEqual((await api.owner("GET", "/v1/agents")).json.agents, []);
  assert.deepEqual((await api.owner("GET", "/v1/jobs")).json.jobs, []);
});

Deno.test("an agent is waited for, told things, and shown while it runs", async () => {
  await using api = await withCampaign();
  const { json: agent } = await api.owner("POST", "/v1/agents", {
    path: api.kit.repo.path,
    prompt: "do it",
  });
  const worker = new HandWorker(api);
  await worker.register();
  const { lease } = await worker.start();
  await save(api, worker, lease, 0, says("hello"));
  const status = await api.owner("GET", "/v1/status");
  assert.deepEqual(status.json.agents.map(({ said }: { said: string }) => said), ["hello"]);
  const told = await api.owner("POST", `/v1/jobs/${agent.job}/prompts`, { text: "hurry" });
  assert.equal(told.status, 201);
  const prompt = told.json.prompt.prompt;
  const [message] = await api.engine.messages(worker.caller, 0, 0);
  const answered = api.owner("GET", `/v1/prompts/${prompt}?wait=20`);
  await api.engine.queued(worker.caller, sure(message).id, null);
  assert.equal((await answered).json.state, "queued");
  const waited = api.owner("GET", `/v1/agents/${agent.agent}?wait=20`);
  await api.engine.report(worker.caller, lease, crypto.randomUUID(), {
    kind: "agent_finished",
    process: { status: "exited", seconds: 1, exit_code: 0 },
    read: [prompt],
  });
  assert.equal((await waited).json.state, "finished");
  const prompts = await api.owner("GET", `/v1/agents/${agent.agent}/prompts`);
  assert.deepEqual(prompts.json.prompts.map(({ state }: { state: string }) => state), ["read"]);
  const again = await api.owner("POST", `/v1/jobs/${agent.job}/prompts`, { text: "more" });
  assert.equal(again.status, 409);
  for (const path of ["/v1/agents/99", "/v1/agents/99/prompts", "/v1/prompts/99"]) {
    assert.equal((await api.owner("GET", path)).status, 404, path);
  }
});

Deno.test("a stream is read as bytes or as text, from any byte, and waits for more", async () => {
  await using api = await withCampaign();
  const { json: agent } = await api.owner("POST", "/v1/agents", { campaign: "demo", prompt: "x" });
  const worker = new HandWorker(api);
  await worker.register();
  const { lease } = await worker.start();
  const first = says("one");
  const tool = JSON.stringify({
    type: "assistant",
    message: { content: [{ type: "tool_use", name: "Bash", input: { command: "ls" } }] },
  }) + "\n";
  await save(api, worker, lease, 0, first);
  assert.deepEqual(await stream(api, agent.job, "?format=text"), {
    status: 200,
    text: "one\n",
    from: 0,
    next: first.length,
    over: "false",
  });
  assert.equal((await stream(api, agent.job, "?from=3")).text, first.slice(3));
  const waiting = stream(api, agent.job, `?from=${first.length}&wait=20&format=text`);
  // Half a line is no text yet.
  await save(api, worker, lease, first.length, tool.slice(0, 10));
  await save(api, worker, lease, first.length + 10, tool.slice(10));
  const { text, next } = await waiting;
  assert.deepEqual([text, next], ['[Bash] {"command":"ls"}\n', first.length + tool.length]);
  const last = stream(api, agent.job, `?from=${next}&wait=20`);
  await api.engine.report(worker.caller, lease, crypto.randomUUID(), {
    kind: "agent_not_started",
    reason: "x",
  });
  assert.deepEqual(await last, { status: 200, text: "", from: next, next, over: "true" });
  const list = await api.owner("GET", `/v1/jobs/${agent.job}/streams`);
  assert.deepEqual(
    list.json.streams.map(({ stream, over }: Record<string, unknown>) => [stream, over]),
    [
      ["session", true],
    ],
  );
  assert.equal((await stream(api, agent.job, "", "no/such.log")).status, 404);
  assert.equal((await stream(api, 99)).status, 404);
  assert.equal((await stream(api, agent.job, "?from=-1")).status, 400);
  assert.equal((await stream(api, agent.job, "?wait=100")).status, 400);
});

Deno.test("an evaluation's logs are streams too, and become its files", async () => {
  await using api = await ApiKit.withEvaluations(1);
  const worker = new HandWorker(api);
  await worker.register();
  const { lease } = await worker.start();
  const { json } = await api.owner("GET", "/v1/jobs");
  const job = json.jobs[0].job;
  const name = "candidate-0/eval.stdout";
  const put = (text: string) => api.kit.cas.put(encoder.encode(text));
  const part = { lease, stream: name, offset: 0, bytes: 5, usage: null, session: null };
  const blob = await put("line\n");
  await api.engine.holding(
    worker.caller,
    lease,
    (tx, { id }) => api.kit.streams.append(tx, id, { ...part, blob }),
  );
  assert.equal((await stream(api, job, "", name)).text, "line\n");
  const files = { [name]: await put("line\nmore\n") };
  await worker.report(lease, { samples: [{ metrics: { score: 1 }, seconds: 1 }], files });
  const end = await stream(api, job, "?from=5&wait=5", name);
  assert.deepEqual([end.text, end.over], ["more\n", "true"]);
});
