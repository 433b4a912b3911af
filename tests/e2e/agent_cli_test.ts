/** @module Agents from the command line to a worker that speaks protocol 7 by hand, over real processes and sockets. */

import assert from "node:assert/strict";
import { until } from "../kit/mod.ts";
import { HandAgent, says } from "./agent_worker.ts";
import { Cluster, PATIENT } from "./cluster.ts";

interface AgentResult {
  readonly job: number;
  readonly agent: number;
  readonly state: string;
  readonly error: string | null;
  readonly landed: { readonly ref: string; readonly head: string } | null;
}

const USAGE = {
  input: 10,
  output: 20,
  cache_read: 0,
  cache_write: 0,
  total: 30,
  turns: 1,
  source: "/w/s.jsonl",
};

async function cluster(): Promise<Cluster> {
  const made = await Cluster.make({ timing: PATIENT, agents: 4 });
  await made.serve();
  await made.serveCas();
  await made.campaign([1]);
  return made;
}

/** Ask for an agent, without waiting. */
async function ask(of: Cluster, ...more: string[]): Promise<AgentResult> {
  const argv = ["agent", "make it better", "--campaign", "steps", "--no-wait", "--json", ...more];
  return JSON.parse(await of.programs.sublet("server", argv));
}

/** A commit on `base`, made in another clone, as a bundle in the store. */
async function work(of: Cluster, worker: HandAgent, base: string) {
  const clone = `${of.root}/clone-${crypto.randomUUID()}`;
  const { programs } = of;
  await programs.git(of.root, "clone", "--quiet", `${of.root}/repo`, clone);
  await programs.git(clone, "checkout", "--quiet", "--detach", base);
  await Deno.writeTextFile(`${clone}/value`, "42\n");
  await programs.git(clone, "commit", "--quiet", "--all", "--message", "the answer");
  await programs.git(clone, "branch", "0");
  const head = (await programs.git(clone, "rev-parse", "HEAD")).trim();
  const bundle = `${clone}/work.bundle`;
  await programs.git(clone, "bundle", "create", "--quiet", "--version=3", bundle, "0", `^${base}`);
  return { blob: await worker.cas.put(await Deno.readFile(bundle)), head };
}

const ENDED = { status: "exited", seconds: 5, exit_code: 0, error: null };

Deno.test("sublet agent prints what the agent says, over a restart of the server, and brings its commit", async () => {
  await using made = await cluster();
  const { programs } = made;
  const worker = await HandAgent.join(made, "hand");
  const asked = programs.finish("server", ["agent", "make it better", "--campaign", "steps"]);
  const { lease, job } = await worker.start();
  assert.equal(job.spec.executable, "claude");
  const session = { id: job.session_id, name: "projects/-w/s.jsonl", cwd: "/w" };
  const first = says("I look at the value.");
  await worker.write(lease, "session", first, { session, usage: USAGE });
  await worker.write(lease, "agent_session.stderr", "a warning\n");

  const [shown] = (await made.api<{ agents: { job: number; tokens: number; said: string }[] }>(
    "GET",
    "/v1/status",
  )).agents;
  assert.ok(shown !== undefined);
  assert.deepEqual([shown.tokens, shown.said], [30, "I look at the value."]);
  const status = await programs.sublet("server", ["status"]);
  assert.match(status, /agent\tjob \d+ steps agent \(claude\) on hand, for .*30 tokens: I look/);

  await programs.sublet("server", ["restart"]);
  try {
    await worker.write(lease, "session", says("It becomes 42."));
    const later = await programs.sublet("server", [
      "attach",
      String(shown.job),
      "--no-follow",
      "--from",
      String(first.length),
    ]);
    assert.equal(later, "It becomes 42.\n");
    const logs = programs.finish("server", ["job", "logs", String(shown.job), "-f"]);
    const stderr = await worker.put("a warning\nand another\n");
    await worker.report(lease, {
      kind: "agent_finished",
      process: ENDED,
      session_id: job.session_id,
      usage: USAGE,
      work: await work(made, worker, job.artifact.revision),
      files: { "agent_session.stderr": stderr },
      workspace: { "NOTES.md": await worker.put("42 is the answer") },
      session: {
        file: await worker.put(first + says("It becomes 42.") + says("Done.")),
        name: session.name,
        cwd: "/w",
      },
    });
    const { code, stdout, stderr: said } = await asked;
    assert.equal(code, 0, said);
    assert.equal(stdout, "I look at the value.\nIt becomes 42.\nDone.\n");
    assert.match(said, /work: 1 commit: git merge refs\/sublet\/agents\/1\/head/);
    assert.equal((await logs).stdout, "a warning\nand another\n");
    const repo = `${made.root}/repo`;
    assert.equal(await programs.git(repo, "show", "refs/sublet/agents/1/head:value"), "42\n");
    assert.equal(await programs.git(repo, "status", "--porcelain"), "");
    const notes = `${made.root}/server/projects/1/workspace/NOTES.md`;
    assert.equal(await Deno.readTextFile(notes), "42 is the answer");

    const told = await programs.finish("server", ["prompt", String(shown.job), "and the docs"]);
    assert.equal(told.code, 0, told.stderr);
    assert.match(told.stderr, /had ended: job \d+ goes on with its session/);
    const next = await worker.start();
    assert.equal(next.job.resume?.session_id, job.session_id);
    assert.ok(next.job.spec.args.includes("and the docs"));
  } finally {
    await programs.sublet("server", ["stop"]);
  }
});

Deno.test("a server that is killed right after it took reports puts all of their work in place when it is back", async () => {
  await using made = await cluster();
  const { programs } = made;
  const worker = await HandAgent.join(made, "hand");
  const count = 4;
  const asked: AgentResult[] = [];
  for (let n = 0; n < count; n++) asked.push(await ask(made, "--dedup", `k${n}`));
  const reports: [number, object][] = [];
  for (let n = 0; n < count; n++) {
    const { lease, job } = await worker.start();
    const brought = await work(made, worker, job.artifact.revision);
    const workspace = { [`note-${n}.txt`]: await worker.put(`note ${n}`) };
    reports.push([lease, { kind: "agent_finished", process: ENDED, work: brought, workspace }]);
  }
  await Promise.all(reports.map(([lease, report]) => worker.report(lease, report)));
  programs.kill("server");
  await programs.ended("server");
  await made.serve();
  for (const { agent } of asked) {
    const ended = await until(`agent ${agent} has landed`, async () => {
      const now = await made.api<AgentResult>("GET", `/v1/agents/${agent}?wait=5`);
      return now.state === "landing" ? null : now;
    });
    assert.equal(ended.state, "finished", ended.error ?? "");
    const ref = ended.landed?.ref ?? "";
    assert.equal(await programs.git(`${made.root}/repo`, "show", `${ref}:value`), "42\n");
  }
  const notes = [...Deno.readDirSync(`${made.root}/server/projects/1/workspace`)];
  assert.equal(notes.filter(({ name }) => /^note-\d\.txt$/.test(name)).length, count);
});

Deno.test("sublet prompt says what the worker answered, and a cancelled agent exits with 3", async () => {
  await using made = await cluster();
  const { programs } = made;
  const worker = await HandAgent.join(made, "hand");
  const agent = await ask(made);
  const { lease } = await worker.start();
  const prompt = programs.finish("server", ["prompt", String(agent.job), "hurry"]);
  const [message] = await until("the prompt is there", async () => {
    const found = await worker.messages();
    return found.length > 0 ? found : null;
  });
  assert.deepEqual([message?.kind, message?.prompt?.text], ["prompt", "hurry"]);
  await worker.call("queued", { message: message?.id, error: null });
  const said = await prompt;
  assert.equal(said.code, 0, said.stderr);
  assert.match(said.stdout, new RegExp(`^${agent.job}\t1\tqueued\n$`));

  const refused = programs.finish("server", ["prompt", String(agent.job), "again"]);
  const second = await until(
    "the second is there",
    async () => (await worker.messages()).find(({ prompt }) => prompt?.text === "again"),
  );
  await worker.call("queued", { message: second.id, error: "it takes no more" });
  assert.deepEqual([(await refused).code, /it takes no more/.test((await refused).stderr)], [
    6,
    true,
  ]);

  const attached = programs.finish("server", ["attach", String(agent.job)]);
  await programs.sublet("server", ["job", "cancel", String(agent.job), "--reason", "enough"]);
  await until(
    "it is told to stop",
    async () => (await worker.messages()).some(({ kind }) => kind === "revoke"),
  );
  const process = { status: "exited", seconds: 1, exit_code: null, error: "stopped" };
  await worker.report(lease, { kind: "agent_finished", process, read: [1] });
  const { code, stderr } = await attached;
  assert.equal(code, 3, stderr);
  assert.match(stderr, /cancelled\n(.*\n)*error: enough/);
  const shown = await programs.sublet("server", ["job", "show", String(agent.job)]);
  assert.match(shown, /prompt 1\tread, by .*: hurry/);
  assert.match(shown, /asked\tmake it better/);
});

Deno.test("sublet agent says why the agent has not begun", async () => {
  await using made = await cluster();
  const argv = ["agent", "make it better", "--campaign", "steps"];
  const child = made.programs.command("server", argv).spawn();
  const { promise: said, resolve } = Promise.withResolvers<string>();
  let text = "";
  const reading = child.stderr.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({
      write(part) {
        text += part;
        const why = /^waits: (.*)$/m.exec(text)?.[1];
        if (why !== undefined) resolve(why);
      },
    }),
  );
  assert.match(await said, /no worker has registered yet/);
  await made.programs.sublet("server", ["job", "cancel", "1"]);
  assert.equal((await child.status).code, 3);
  await reading;
  await child.stdout.cancel();
});

Deno.test("refusals say what to do, and exit as documented", async () => {
  await using made = await cluster();
  const { programs } = made;
  const worker = await HandAgent.join(made, "hand");
  for (
    const [argv, exit, text] of [
      [["agent", "x", "--campaign", "nothing"], 5, /there is no campaign nothing/],
      [["agent", "x", "--campaign", "steps", "--base", "nowhere"], 5, /nowhere/],
      [["agent", "x", "--campaign", "steps", "--harness", "vi"], 5, /there is no harness vi/],
      [["agent", "x", "--campaign", "steps", "--pool", "moon"], 5, /there is no pool moon/],
      [["agent", "x", "--campaign", "steps", "--secret", "a b"], 2, /NAME or VARIABLE=NAME/],
      [["agent", " ", "--campaign", "steps"], 2, /the text is empty/],
      [["agent", "-", "--campaign", "steps"], 2, /standard input is empty/],
      [["prompt", "1", ""], 2, /the text is empty/],
      [["agent"], 2, /missing required argument 'prompt'/],
      [["attach", "77"], 5, /no job 77/],
      [["prompt", "77", "x"], 5, /job 77 is no agent's/],
    ] as const
  ) {
    const { code, stderr } = await programs.finish("server", argv);
    assert.equal(code, exit, `${argv.join(" ")}: ${stderr}`);
    assert.match(stderr, text);
  }
  // A worker that sends what is not its own, or nothing that can be, is refused and goes on.
  const agent = await ask(made, "--harness", "command", "--", "true");
  const { lease, job } = await worker.start();
  assert.deepEqual(job.spec.args, []);
  const blob = await worker.put("x");
  const part = { lease, stream: "a.log", offset: 0, bytes: 1, blob };
  for (
    const [body, status] of [
      [{ ...part, stream: "../a" }, 422],
      [{ ...part, stream: ".git/hooks/x" }, 422],
      [{ ...part, bytes: 1e9 }, 422],
      [{ ...part, offset: -1 }, 422],
      [{ ...part, lease: lease + 1 }, 409],
    ] as const
  ) assert.equal((await worker.post("saved", body)).status, status, JSON.stringify(body));
  assert.equal((await worker.post("secrets", { lease })).status === 500, false);
  await worker.report(lease, { kind: "agent_not_started", reason: "no such program" });
  const { code, stderr } = await programs.finish("server", ["attach", String(agent.job)]);
  assert.equal(code, 1, stderr);
  assert.match(stderr, /it did not start: no such program/);
});
