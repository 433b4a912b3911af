import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import { readManifest } from "../../lib/cas/mod.ts";
import { AgentKit, finished, sure, TOML } from "./agents_kit.ts";

const rejects = (promise: Promise<unknown>, code: string, text: RegExp) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof SubletError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, text);
    return true;
  });

Deno.test("a request for an agent becomes a job that a worker can do on its own", async () => {
  await using kit = await AgentKit.make();
  await kit.kit.repo.write("brief.md", "Keep it small.\n");
  const agent = await kit.ask({ prompt: "make the tests pass", model: "big", timeout: 120 });
  assert.equal(agent.state, "waiting");
  assert.equal(agent.harness, "claude");
  const worker = await kit.worker();
  const job = await kit.job(await worker.acquire());
  assert.equal(job.agent_session, agent.agent);
  assert.equal(job.place, `agent_sessions/${agent.agent}`);
  assert.equal(job.capture, agent.agent);
  assert.equal(job.timeout, 120);
  assert.equal(job.artifact.repo, kit.campaign.id);
  assert.equal(job.artifact.revision, await kit.kit.repo.git("rev-parse", "HEAD"));
  const spec = sure(job.spec);
  assert.equal(spec.executable, "claude");
  assert.deepEqual(spec.args.slice(0, 6), [
    "-p",
    "--output-format",
    "json",
    "--session-id",
    job.session_id,
    "--model",
  ]);
  assert.ok(!spec.args.includes("--effort"), "an effort that nobody gave is left out");
  assert.match(sure(spec.args.at(-1)), /\{log_dir\}\/brief\.md/);
  assert.equal(spec.env.CLAUDECODE, "");
  assert.equal(spec.env.PILOOP_ACTOR, `agent#${agent.agent}`);
  const brief = await kit.text(sure(job.brief_cid));
  assert.match(brief, /Keep it small\.\n\n# Where you work/);
  assert.match(brief, /# Your task\n\nmake the tests pass\n$/);
});

Deno.test("an agent's commits come into the campaign's repository, under refs of its own", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  assert.equal((await kit.agents.agent(agent.agent)).state, "running");
  const before = await kit.kit.repo.git("for-each-ref");
  const work = await kit.work(agent.base, { "new.txt": "hello" }, ["first", "second"]);
  await worker.report(lease, finished({ work }));
  const ended = await kit.ended(agent.agent);
  assert.equal(ended.state, "finished", sure(ended.error ?? "no error"));
  const landed = sure(ended.landed);
  assert.equal(landed.head, work.head);
  assert.equal(landed.ref, `refs/sublet/agents/${agent.agent}/head`);
  assert.equal(landed.commits, 2);
  assert.deepEqual(landed.versions.map(({ subject }) => subject), ["second", "first"]);
  assert.equal(await kit.kit.repo.git("rev-parse", sure(landed.ref)), work.head);
  assert.equal(await kit.kit.repo.git("show", `${landed.ref}:new.txt`), "hello second");
  const after = (await kit.kit.repo.git("for-each-ref")).split("\n")
    .filter((line) => !line.includes("refs/sublet/agents/"));
  assert.equal(after.join("\n"), before, "no other ref moved");
});

Deno.test("the work of an agent that failed, was cancelled or ran out of time comes back all the same", async () => {
  await using kit = await AgentKit.make();
  const worker = await kit.worker();
  const ends = [
    { process: { status: "exited", seconds: 1, exit_code: 7, error: null } },
    { process: { status: "timed_out", seconds: 60, exit_code: null, error: null } },
    { process: { status: "exited", seconds: 1, exit_code: null, error: "killed by SIGKILL" } },
  ];
  const states: (string | boolean | null)[][] = [];
  for (const [index, end] of ends.entries()) {
    const agent = await kit.ask({ prompt: `task ${index}` });
    const { lease } = await worker.start();
    if (index === 2) await kit.engine.cancelJob(sure(agent.job), "not needed any more");
    const work = await kit.work(agent.base, { [`${index}.txt`]: "x" });
    await worker.report(lease, finished({ ...end, work }));
    const ended = await kit.ended(agent.agent);
    assert.equal(sure(ended.landed).head, work.head);
    states.push([ended.state, ended.error, ended.timed_out]);
  }
  assert.deepEqual(states, [
    ["failed", "it exited with 7", false],
    ["failed", "it ran out of time", true],
    ["cancelled", "not needed any more", false],
  ]);
});

Deno.test("branches that an agent left are kept beside its head, and those that it only names are not", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const work = await kit.work(agent.base, { "a.txt": "a" });
  const branches = [
    { name: "heads/../../main", revision: agent.base },
    { name: "refs/heads/main", revision: "1".repeat(40) },
  ];
  await worker.report(lease, finished({ work, branches, notes: ["a merge was in progress"] }));
  const landed = sure((await kit.ended(agent.agent)).landed);
  assert.deepEqual(landed.branches, [{
    name: "heads/../../main",
    revision: agent.base,
    ref: `refs/sublet/agents/${agent.agent}/branch-1`,
  }]);
  assert.deepEqual(landed.notes, ["a merge was in progress"]);
});

Deno.test("a bundle that is none is written down with where its bytes are, and ends nothing else", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  await Deno.mkdir(kit.workspace, { recursive: true });
  const blob = await kit.put("this is no bundle");
  const note = await kit.put("a note");
  await worker.report(
    lease,
    finished({ work: { blob, head: "2".repeat(40) }, workspace: { "note.txt": note } }),
  );
  const ended = await kit.ended(agent.agent);
  assert.equal(ended.state, "failed");
  assert.match(sure(ended.error), new RegExp(`could not be taken.*sublet cas get ${blob}`));
  assert.equal(sure(ended.landed).blob, blob);
  assert.equal(await Deno.readTextFile(`${kit.workspace}/note.txt`), "a note");
});

Deno.test("a report whose server died before its work landed lands at the next start, once", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const work = await kit.work(agent.base, { "a.txt": "a" });
  // This server takes the report, and never lands it.
  await kit.agents.idle();
  await worker.report(lease, finished({ work, workspace: { "w.txt": await kit.put("w") } }));
  assert.equal((await kit.agents.agent(agent.agent)).state, "landing");
  const next = kit.kit.restartedAgents();
  const none = () => Promise.reject();
  next.bind({ submit: none, prompt: none, recovered: none });
  await next.resume();
  const ended = await next.waitFor(agent.agent, 20_000, new AbortController().signal);
  await next.idle();
  assert.equal(ended.state, "finished");
  assert.equal(sure(ended.landed).head, work.head);
  assert.equal(await Deno.readTextFile(`${kit.workspace}/w.txt`), "w");
});

Deno.test("a job that is lost before it ran is tried again, one that ran is not", async () => {
  await using kit = await AgentKit.make();
  const worker = await kit.worker();
  const first = await kit.ask({ prompt: "one" });
  const grant = await worker.acquire();
  await kit.engine.lost(worker.caller, grant.lease, "its disk is full");
  const waiting = await kit.agents.agent(first.agent);
  assert.equal(waiting.state, "waiting");
  await kit.engine.cancelJob(sure(first.job), "enough");
  const second = await kit.ask({ prompt: "two" });
  const { lease } = await worker.start();
  await kit.engine.lost(worker.caller, lease, "the machine was restarted");
  const lost = await kit.agents.agent(second.agent);
  assert.equal(lost.state, "lost");
  assert.match(sure(lost.error), /the machine was restarted/);
  assert.equal((await kit.engine.showJob(sure(second.job))).state, "dead");
});

Deno.test("an agent that did not start says why, and leaves nothing", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.acquire();
  const files = { "start.log": await kit.put("no such program") };
  await worker.report(lease, {
    kind: "agent_not_started",
    reason: "no claude here",
    seconds: 2,
    files,
  });
  const ended = await kit.ended(agent.agent);
  assert.equal(ended.state, "failed");
  assert.equal(ended.error, "it did not start: no claude here");
  assert.equal(ended.landed, null);
  assert.deepEqual(ended.files, files);
});

Deno.test("requests that cannot be met are refused before anything is made", async () => {
  await using kit = await AgentKit.make();
  await rejects(kit.ask({ prompt: " " }), "invalid_request", /say what is to be done/);
  await rejects(kit.ask({ base: "nowhere" }), "not_found", /nowhere/);
  await rejects(kit.ask({ harness: "emacs" }), "not_found", /there is no harness emacs: there are/);
  await rejects(kit.ask({ harness: "command" }), "invalid_request", /give it after --/);
  await rejects(kit.ask({ command: ["ls"] }), "invalid_request", /only the harness command/);
  await rejects(kit.ask({ role: "king" }), "not_found", /has no role king/);
  await rejects(kit.ask({ timeout: -1 }), "invalid_request", /timeout/);
  assert.deepEqual(await kit.agents.list({ limit: 10 }), []);
  assert.deepEqual(await kit.engine.listJobs(), []);
});

Deno.test("the harness command runs any program, with the brief's file", async () => {
  await using kit = await AgentKit.make();
  await kit.ask({ harness: "command", command: ["sh", "-c", 'cat "$1"', "x", "{brief}"] });
  const worker = await kit.worker();
  const job = await kit.job(await worker.acquire());
  assert.deepEqual(
    [sure(job.spec).executable, ...sure(job.spec).args],
    ["sh", "-c", 'cat "$1"', "x", "{log_dir}/brief.md"],
  );
  assert.equal(job.session_id, null);
  assert.equal(job.usage, null);
});

Deno.test("roles, harnesses and servers of the campaign's file say what an agent gets", async () => {
  await using kit = await AgentKit.make(
    `harnesses = ["mine", "claude"]
model = { mine = "small" }
${TOML}
[harness.mine]
executable = "mine"
headless = ["--ask", "{prompt}", "--model", "{model}", "--think", "{effort}", "{mcp}"]
mcp = "claude"
env = { GATEWAY = "https://gateway", KEY = { secret = "GATEWAY_KEY" } }
[mcp.search]
url = "https://example.org/mcp"
bearer_token_env = "SEARCH_KEY"
[roles.scout]
prompt = "scout.md"
effort = "low"
timeout = 60
mcp = ["search"]
`,
    {
      harness: { mine: { resume: ["--go-on", "{session_id}", "{prompt}"] } },
      mcp: {},
    },
  );
  await rejects(kit.ask({ role: "scout" }), "invalid_request", /scout\.md is not in/);
  await kit.kit.repo.write("scout.md", "Look around.\n");
  const agent = await kit.ask({ role: "scout", secrets: { EXTRA: "OTHER" } });
  assert.equal(agent.timeout, 60);
  assert.equal(agent.role, "scout");
  const worker = await kit.worker();
  const job = await kit.job(await worker.acquire());
  const spec = sure(job.spec);
  assert.equal(spec.executable, "mine");
  assert.deepEqual(spec.args.slice(2), ["--model", "small", "--think", "low", "{mcp}"]);
  assert.deepEqual(spec.resume_args, ["--go-on", "{session_id}", "{prompt}"]);
  assert.equal(spec.env.GATEWAY, "https://gateway");
  assert.ok(!("KEY" in spec.env));
  assert.deepEqual(job.secrets, { SEARCH_KEY: "SEARCH_KEY", KEY: "GATEWAY_KEY", EXTRA: "OTHER" });
  assert.deepEqual(Object.keys(job.servers), ["search"]);
  assert.match(await kit.text(sure(job.brief_cid)), /^Look around\./);
});

Deno.test("a request under the key of an earlier one gets its agent, and another one is refused", async () => {
  await using kit = await AgentKit.make();
  const first = await kit.ask({ dedup: "k" });
  assert.equal((await kit.ask({ dedup: "k" })).agent, first.agent);
  await rejects(kit.ask({ dedup: "k", prompt: "another" }), "conflict", /asked for something else/);
  assert.equal((await kit.agents.list({ limit: 10 })).length, 1);
});

Deno.test("an agent gets the shared workspace as it is, and other work to read", async () => {
  await using kit = await AgentKit.make();
  await Deno.mkdir(kit.workspace, { recursive: true });
  await Deno.writeTextFile(`${kit.workspace}/NOTES.md`, "notes");
  const first = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const work = await kit.work(first.base, { "a.txt": "a" });
  await worker.report(lease, finished({ work }));
  await kit.ended(first.agent);
  await kit.ask({ prompt: "next" });
  const job = await kit.job(await worker.acquire());
  assert.deepEqual(job.artifact.history, [work.head]);
  const workspace = sure(job.artifact.workspace);
  assert.equal(workspace.place, `projects/${kit.campaign.id}/workspace`);
  const { entries } = await readManifest(kit.cas, workspace.manifest);
  assert.deepEqual(entries.map(({ path }) => path), ["NOTES.md"]);
});

Deno.test("what a lost agent's worker hands in too late is taken when somebody says so, once", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const job = sure(agent.job);
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const late = async () => await kit.agents.recover(job, await kit.engine.evidence(job));
  await rejects(late(), "conflict", /was not lost \(it is running\)/);
  await kit.engine.lost(worker.caller, lease, "its machine went away");
  await rejects(late(), "not_found", /handed nothing in/);
  const work = await kit.work(agent.base, { "a.txt": "a" });
  const files = { "big.log": await kit.put("log") };
  // So long that it is kept in the store.
  const notes = Array.from({ length: 40 }, () => "n".repeat(4000));
  await rejects(worker.report(lease, finished({ work, files, notes })), "stale_lease", /expired/);
  assert.equal((await kit.agents.agent(agent.agent)).state, "lost");
  await late();
  const ended = await kit.ended(agent.agent);
  assert.equal(ended.state, "finished");
  assert.equal(sure(ended.landed).head, work.head);
  assert.deepEqual(ended.files, files);
  await rejects(late(), "conflict", /taken already/);
});

Deno.test("the job of an agent that was recovered is dead no more, and shows that it was", async () => {
  await using kit = await AgentKit.make();
  const worker = await kit.worker();
  const lose = async (cancel: boolean) => {
    const agent = await kit.ask();
    const job = sure(agent.job);
    const { lease } = await worker.start();
    if (cancel) await kit.engine.cancelJob(job, "not needed");
    await kit.engine.lost(worker.caller, lease, "its machine went away");
    const work = await kit.work(agent.base, { "a.txt": `${job}` });
    await rejects(worker.report(lease, finished({ work })), "stale_lease", /expired/);
    const before = await kit.engine.showJob(job);
    await kit.agents.recover(job, await kit.engine.evidence(job));
    const ended = await kit.ended(agent.agent);
    assert.equal(sure(ended.landed).head, work.head);
    return { job, lease, before, ended, after: await kit.engine.showJob(job) };
  };
  const dead = await lose(false);
  assert.deepEqual([dead.before.state, dead.after.state], ["dead", "reported"]);
  assert.deepEqual([dead.ended.state, dead.after.reason], ["finished", null]);
  const event = sure(dead.after.events.find(({ event }) => event === "recovered"));
  assert.deepEqual([event.lease, event.worker], [dead.lease, "w1"]);
  assert.match(String(event.fields["was"]), /lost once.*its machine went away/);
  assert.equal((await kit.engine.status()).jobs.dead, 0);
  assert.deepEqual((await kit.engine.listJobs({ state: "dead" })).length, 0);
  await rejects(kit.engine.retryJob(dead.job), "conflict", /is reported/);
  // One that somebody cancelled stays so, with its work in place.
  const cancelled = await lose(true);
  assert.deepEqual([cancelled.before.state, cancelled.after.state], ["cancelled", "cancelled"]);
  assert.deepEqual([cancelled.ended.state, cancelled.ended.error], ["cancelled", "not needed"]);
  assert.equal(cancelled.after.reason, "not needed");
});

Deno.test("only an agent that never ran is tried again", async () => {
  await using kit = await AgentKit.make();
  const worker = await kit.worker();
  const cancelled = await kit.ask();
  await kit.engine.cancelJob(sure(cancelled.job), "wait");
  await kit.engine.retryJob(sure(cancelled.job));
  assert.equal((await kit.agents.agent(cancelled.agent)).state, "waiting");
  const { lease } = await worker.start();
  await kit.engine.lost(worker.caller, lease, "gone");
  await rejects(kit.engine.retryJob(sure(cancelled.job)), "conflict", /not to be done twice/);
  assert.equal((await kit.agents.agent(cancelled.agent)).state, "lost");
});
