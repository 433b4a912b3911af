/** @module What an agent finds in its checkout (links, workspace, servers), and what comes back of it. */

import assert from "node:assert/strict";
import { AgentBench, AgentControl, finishedOf, notStartedOf } from "./agent_kit.ts";

Deno.test("links and the shared workspace are there, and are none of the agent's work", async () => {
  await using bench = await AgentBench.make();
  const source = bench.source({
    links: { data: await bench.tree({ "data/a": "A" }) },
    workspace: {
      place: "projects/3/workspace",
      manifest: await bench.tree({ "n.md": "N", "d/m": "M" }),
    },
  });
  const report = await bench.report("cat data/a workspace/n.md workspace/d/m >seen", {
    artifact: source,
  });
  assert.equal(report.process.error, null);
  assert.deepEqual(report.workspace, {});
  const work = await bench.take(report.work);
  assert.equal(await work.show("seen"), "ANM");
  assert.deepEqual(await work.files(), [".gitignore", "seen", "value"]);
});

Deno.test("what an agent wrote, changed and removed in the workspace comes back, by path", async () => {
  await using bench = await AgentBench.make();
  const manifest = await bench.tree({
    same: "S",
    touched: "T",
    changed: "C",
    gone: "G",
    "d/gone": "D",
    "d/kept": "K",
  });
  const artifact = bench.source({ workspace: { place: "w", manifest } });
  const report = await bench.report(
    [
      "cd workspace; echo new >new; mkdir -p x/y; echo deep >x/y/z; rm -f gone d/gone",
      "cd workspace; rm changed; echo other >changed; cp touched t; rm touched; mv t touched; ln -s /etc/passwd link; mkfifo pipe; mkdir empty",
    ].join("\n"),
    { artifact },
  );
  assert.equal(report.process.error, null);
  const texts: Record<string, string | null> = {};
  for (const [path, cid] of Object.entries(report.workspace)) {
    texts[path] = cid === null ? null : await bench.read(cid);
  }
  assert.deepEqual(texts, {
    changed: "other\n",
    "d/gone": null,
    gone: null,
    new: "new\n",
    "x/y/z": "deep\n",
  });
  assert.deepEqual(report.left_out.map(({ path }) => path).sort(), [
    "workspace/link",
    "workspace/pipe",
  ]);
  assert.match(report.left_out[0]?.reason ?? "", /agents share files alone/);
  assert.equal(report.changed, false);
  assert.equal(report.work, null);
});

Deno.test("another process of the worker finds the same differences", async () => {
  await using bench = await AgentBench.make();
  const manifest = await bench.tree({ same: "S", changed: "C", gone: "G" });
  const artifact = bench.source({ workspace: { place: "w", manifest } });
  const control = new AgentControl();
  const job = await bench.job("cd workspace; rm gone changed; echo other >changed; sleep 300", {
    artifact,
  }, "command");
  control.started = () => {
    control.go();
    return Promise.resolve(true);
  };
  assert.deepEqual(await bench.runner.run(job, control), { left: true });
  const later = new AgentControl();
  setTimeout(() => later.revoke(), 500);
  const report = finishedOf(
    await bench.restarted().recover(job, { handle: null, startedAt: null }, later),
  );
  assert.deepEqual(Object.keys(report.workspace), ["changed", "gone"]);
});

Deno.test("a workspace in the version itself is left alone, and a removed one removes all", async (test) => {
  await using bench = await AgentBench.make();
  const manifest = await bench.tree({ a: "A", b: "B" });
  const workspace = { place: "w", manifest };
  await test.step("removed", async () => {
    const report = await bench.report("rm -rf workspace", {
      artifact: bench.source({ workspace }),
    });
    assert.deepEqual(report.workspace, { a: null, b: null });
  });
  await test.step("replaced by a link", async () => {
    const script = "rm -rf workspace; ln -s /etc workspace";
    const report = await bench.report(script, { artifact: bench.source({ workspace }) });
    assert.deepEqual(report.workspace, {});
    assert.ok(report.left_out.some(({ path }) => path.startsWith("workspace/")));
  });
  await test.step("of the version", async () => {
    const revision = await bench.commit({ "workspace/own": "O" });
    const artifact = bench.source({ workspace, revision });
    const report = await bench.report("ls workspace >seen; echo 2 >workspace/own", { artifact });
    assert.deepEqual(report.workspace, {});
    const work = await bench.take(report.work);
    assert.equal(await work.show("seen"), "own\n");
    assert.equal(await work.show("workspace/own"), "2\n");
  });
});

Deno.test("an agent that removes its own checkout loses no more than that", async () => {
  await using bench = await AgentBench.make();
  const manifest = await bench.tree({ a: "A" });
  const artifact = bench.source({ workspace: { place: "w", manifest } });
  const report = await bench.report(
    'rm -rf "$PWD"; echo still',
    { artifact },
    new AgentControl(),
    "command",
  );
  assert.match(report.process.error ?? "", /removed its own checkout/);
  assert.deepEqual(report.workspace, {});
  assert.equal(await bench.read(report.files["agent_session.stdout"]), "still\n");
});

const SERVERS = {
  web: {
    url: "https://mcp.example/x",
    headers_env: { "x-key": "WEB_KEY" },
    bearer_token_env: "WEB_TOKEN",
  },
  local: { command: ["node", "server.js"], env: ["LOCAL_KEY"] },
};
const SECRETS = { WEB_KEY: "ONE", WEB_TOKEN: "TWO", LOCAL_KEY: "THREE" };

function withSecrets(): AgentControl {
  const control = new AgentControl();
  control.secretValues = { ONE: "value-one", TWO: "value-two", THREE: "value-three" };
  return control;
}

Deno.test("MCP servers reach each harness in its own form, without a value of a secret", async (test) => {
  const expected = {
    claude: {
      mcpServers: {
        web: {
          type: "http",
          url: "https://mcp.example/x",
          headers: { "x-key": "${WEB_KEY}", Authorization: "Bearer ${WEB_TOKEN}" },
        },
        local: {
          type: "stdio",
          command: "node",
          args: ["server.js"],
          env: { LOCAL_KEY: "${LOCAL_KEY}" },
        },
      },
    },
    pi: {
      mcpServers: {
        web: {
          url: "https://mcp.example/x",
          headers: { "x-key": "${WEB_KEY}", Authorization: "Bearer ${WEB_TOKEN}" },
        },
        local: { command: "node", args: ["server.js"], env: { LOCAL_KEY: "${LOCAL_KEY}" } },
      },
    },
  };
  for (const [harness, config] of Object.entries(expected)) {
    await test.step(harness, async () => {
      await using bench = await AgentBench.make();
      const job = await bench.job("true", { servers: SERVERS, secrets: SECRETS }, harness);
      const seen = bench.dir.join("seen");
      (job["spec"] as { env: Record<string, string> }).env["STUB_SEEN"] = seen;
      const report = finishedOf(await bench.runner.run(job, withSecrets()));
      assert.equal(report.process.error, null);
      assert.deepEqual(JSON.parse(await Deno.readTextFile(seen)), config);
    });
  }
});

Deno.test("Codex gets the job's MCP servers, and the person's are switched off", async () => {
  await using bench = await AgentBench.make();
  await Deno.mkdir(bench.dir.join("user/.codex"));
  await Deno.writeTextFile(bench.dir.join("user/.codex/servers"), "theirs other\n");
  const job = await bench.job("tr '\\0' '\\n' </proc/$PPID/cmdline >argv", {
    servers: SERVERS,
    secrets: SECRETS,
  }, "codex");
  const report = finishedOf(await bench.runner.run(job, withSecrets()));
  assert.equal(report.process.error, null);
  const argv = await (await bench.take(report.work)).show("argv");
  assert.match(argv, /^mcp_servers\.theirs\.enabled=false$/m);
  assert.match(argv, /^mcp_servers\.other\.enabled=false$/m);
  assert.match(
    argv,
    /^mcp_servers\.web=\{url = "https:\/\/mcp\.example\/x", env_http_headers = \{x-key = "WEB_KEY"\}, bearer_token_env_var = "WEB_TOKEN"\}$/m,
  );
  assert.match(
    argv,
    /^mcp_servers\.local=\{command = "node", args = \["server\.js"\], env_vars = \["LOCAL_KEY"\]\}$/m,
  );
  assert.match(
    argv,
    /^shell_environment_policy\.exclude=\["WEB_KEY", "WEB_TOKEN", "LOCAL_KEY"\]$/m,
  );
  assert.doesNotMatch(argv, /value-/);
});

Deno.test("a server of the person's that has the name of one of the job's keeps the agent from starting", async () => {
  await using bench = await AgentBench.make();
  await Deno.mkdir(bench.dir.join("user/.codex"));
  await Deno.writeTextFile(bench.dir.join("user/.codex/servers"), "web\n");
  const job = await bench.job("true", { servers: SERVERS, secrets: SECRETS }, "codex");
  const report = notStartedOf(await bench.runner.run(job, withSecrets()));
  assert.match(report.reason, /MCP servers that the job names too: web/);
});
