import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import { AgentKit, finished, sure } from "./agents_kit.ts";

const NEVER = new AbortController().signal;

const conflict = (promise: Promise<unknown>, text: RegExp) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof SubletError && error.code === "conflict", String(error));
    assert.match(error.message, text);
    return true;
  });

async function states(kit: AgentKit, agent: number): Promise<string[]> {
  return (await kit.agents.prompts(agent)).map(({ state }) => state);
}

Deno.test("a prompt to a running agent goes to its worker, and is answered once", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  await worker.start();
  const { prompt } = await kit.agents.prompt(sure(agent.job), "also the docs", "me");
  assert.equal(sure(prompt).state, "sent");
  const [message] = await worker.prompts();
  assert.deepEqual(sure(message).prompt, { id: sure(prompt).prompt, text: "also the docs" });
  assert.equal((await worker.prompts()).length, 1, "it is there until it is answered");
  const waited = kit.agents.waitForPrompt(sure(prompt).prompt, 10_000, NEVER);
  await kit.engine.queued(worker.caller, sure(message).id, null);
  assert.equal((await waited).state, "queued");
  await kit.engine.queued(worker.caller, sure(message).id, "too late to be refused");
  assert.deepEqual(await states(kit, agent.agent), ["queued"]);
  assert.deepEqual(await worker.prompts(), []);
});

Deno.test("a worker that refuses a prompt says why", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  await worker.start();
  const { prompt } = await kit.agents.prompt(sure(agent.job), "hello", "me");
  const [message] = await worker.prompts();
  await kit.engine.queued(worker.caller, sure(message).id, "this harness takes none");
  const last = await kit.agents.waitForPrompt(sure(prompt).prompt, 0, NEVER);
  assert.deepEqual([last.state, last.error], ["refused", "this harness takes none"]);
});

Deno.test("prompts to an agent that waits are sent when it starts, in their order", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  for (const text of ["first", "second"]) {
    const { prompt } = await kit.agents.prompt(sure(agent.job), text, "me");
    assert.equal(sure(prompt).state, "waiting");
  }
  const worker = await kit.worker();
  const { lease } = await worker.acquire();
  assert.deepEqual(await worker.prompts(), [], "it does not run yet");
  await worker.started(lease);
  await worker.started(lease);
  assert.deepEqual((await worker.prompts()).map(({ prompt }) => prompt.text), ["first", "second"]);
});

Deno.test("a report says which prompts were read, and speaks for no other agent's", async () => {
  await using kit = await AgentKit.make();
  const worker = await kit.worker();
  const [one, two] = [await kit.ask({ prompt: "one" }), await kit.ask({ prompt: "two" })];
  const first = await worker.start();
  await worker.start();
  const ids: number[] = [];
  for (const text of ["a", "b"]) {
    ids.push(sure((await kit.agents.prompt(sure(one.job), text, "me")).prompt).prompt);
  }
  const foreign = sure((await kit.agents.prompt(sure(two.job), "c", "me")).prompt).prompt;
  await worker.report(first.lease, finished({ read: [ids[0], foreign, 999], unread: [ids[1]] }));
  await kit.ended(one.agent);
  assert.deepEqual(await states(kit, one.agent), ["read", "unread"]);
  assert.deepEqual(await states(kit, two.agent), ["sent"]);
});

Deno.test("a prompt to an agent that ended makes a job that goes on with its session, from its work", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask({ model: "big", timeout: 500, secrets: { KEY: "NAME" } });
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const work = await kit.work(agent.base, { "a.txt": "a" });
  const file = await kit.put('{"type":"user"}\n');
  const session = { file, name: "projects/-x/s.jsonl", cwd: "/home/w/agent_sessions/1/worktree" };
  await worker.report(lease, finished({ work, session, session_id: "s-1" }));
  await kit.ended(agent.agent);

  const told = await kit.agents.prompt(sure(agent.job), "and now the docs", "me");
  assert.equal(told.prompt, null);
  assert.notEqual(told.agent.job, agent.job);
  assert.equal(told.agent.resumes, agent.agent);
  assert.equal(told.agent.base, work.head);
  const job = await kit.job(await worker.acquire());
  assert.deepEqual(job.resume, { session_id: "s-1", ...session });
  assert.equal(job.session_id, "s-1");
  assert.equal(job.timeout, 500);
  assert.deepEqual(job.secrets, { KEY: "NAME" });
  const { args } = sure(job.spec);
  assert.deepEqual(args.slice(3, 7), ["--resume", "s-1", "--model", "big"]);
  assert.equal(args.at(-1), "and now the docs");
  assert.match(await kit.text(sure(job.brief_cid)), /# Your next task\n\nand now the docs\n/);
});

Deno.test("the tokens of an agent that goes on with a session are its own, beside those of the session", async () => {
  await using kit = await AgentKit.make();
  const worker = await kit.worker();
  const usage = (turns: number) => ({
    input: 10 * turns,
    output: 7 * turns,
    cache_read: 100 * turns,
    cache_write: 0,
    total: 117 * turns,
    turns,
    source: "/s.jsonl",
  });
  const session = { file: await kit.put("x"), name: "s.jsonl", cwd: null };
  const report = { session, session_id: "s" };
  let { agent, job } = await kit.ask();
  for (const [before, all] of [[0, 2], [2, 3], [3, 6]] as const) {
    const { lease } = await worker.start();
    const part = { id: "s", name: "s.jsonl", cwd: null };
    await worker.saved(lease, "session", 0, "x", { session: part, usage: usage(all - 1) });
    const running = await kit.agents.agent(agent);
    assert.deepEqual(running.usage, usage(all - 1 - before));
    assert.deepEqual(running.session_usage, usage(all - 1));
    await worker.report(lease, finished({ ...report, usage: usage(all) }));
    const ended = await kit.ended(agent);
    assert.deepEqual(ended.usage, usage(all - before));
    assert.deepEqual(ended.session_usage, usage(all));
    ({ agent, job } = (await kit.agents.prompt(sure(job), "go on", "me")).agent);
  }
});

Deno.test("a session goes on only where sessions can be put back", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const old = await kit.worker("old", ["process"]);
  const { lease } = await old.start();
  const session = { file: await kit.put("x"), name: "s.jsonl", cwd: null };
  await old.report(lease, finished({ session, session_id: "s" }));
  await kit.ended(agent.agent);
  await kit.agents.prompt(sure(agent.job), "go on", "me");
  assert.equal(
    await kit.engine.acquire(old.caller, crypto.randomUUID(), {
      at: "2026-01-01T00:00:00Z",
      cpus: 1,
      load1: 0,
      memory_available: 1e9,
      disk_free: 1e11,
    }),
    "nothing",
  );
  await (await kit.worker("new")).acquire();
});

Deno.test("a lost agent goes on from what it sent of its session", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const session = { id: "s-9", name: "projects/-x/s-9.jsonl", cwd: "/w" };
  await worker.saved(lease, "session", 0, '{"a":1}\n', { session });
  await worker.saved(lease, "session", 8, '{"b":2}\n');
  await kit.engine.lost(worker.caller, lease, "its machine is gone");
  const told = await kit.agents.prompt(sure(agent.job), "go on", "me");
  assert.equal(told.agent.resumes, agent.agent);
  const { resume } = await kit.job(await worker.acquire());
  assert.equal(sure(resume).session_id, "s-9");
  assert.equal(await kit.text(sure(sure(resume).file)), '{"a":1}\n{"b":2}\n');
});

Deno.test("an agent that left no session, or whose harness knows no way on, is not gone on with", async () => {
  await using kit = await AgentKit.make();
  const worker = await kit.worker();
  const agent = await kit.ask();
  const { lease } = await worker.start();
  await worker.report(lease, finished({ session_id: "s" }));
  await kit.ended(agent.agent);
  await conflict(kit.agents.prompt(sure(agent.job), "go on", "me"), /did not come back.*--base/);
  const other = await kit.ask({ harness: "command", command: ["true"] });
  const grant = await worker.start();
  await worker.report(grant.lease, finished({}));
  await kit.ended(other.agent);
  await conflict(kit.agents.prompt(sure(other.job), "go on", "me"), /cannot go on with a session/);
});

Deno.test("text that a command line or a worker would take for something else goes by the brief", async () => {
  await using kit = await AgentKit.make();
  const worker = await kit.worker();
  for (const text of ["--version", "look at {cwd} and {log_dir}", "x".repeat(100_000)]) {
    const agent = await kit.ask();
    const { lease } = await worker.start();
    const session = { file: await kit.put("x"), name: "s.jsonl", cwd: null };
    await worker.report(lease, finished({ session, session_id: "s" }));
    await kit.ended(agent.agent);
    await kit.agents.prompt(sure(agent.job), text, "me");
    const grant = await worker.start();
    const job = await kit.job(grant);
    assert.match(sure(sure(job.spec).args.at(-1)), /^Your task is in the file/);
    assert.ok((await kit.text(sure(job.brief_cid))).includes(text));
    await worker.report(grant.lease, finished({}));
  }
});

Deno.test("a session whose name a command line would take for an option is not gone on with", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const session = { file: await kit.put("x"), name: "s.jsonl", cwd: null };
  await worker.report(lease, finished({ session, session_id: "--settings={}" }));
  await kit.ended(agent.agent);
  await conflict(kit.agents.prompt(sure(agent.job), "go on", "me"), /no command line should get/);
});
