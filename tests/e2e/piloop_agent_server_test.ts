/**
 * @module Our worker runs agents of a real piloop 0.3.1 server. `SUBLET_TEST_PILOOP` names its executable; without it
 * these tests are skipped.
 */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { until } from "../kit/mod.ts";
import { Cluster } from "./cluster.ts";
import { freePort, PILOOP, Piloop, piloopCampaign } from "./piloop_kit.ts";

const SKIPPED = PILOOP === null ? " (SKIPPED: SUBLET_TEST_PILOOP names no piloop)" : "";
const STUBS = fileURLToPath(new URL("../fixtures/harnesses", import.meta.url));
const CAMPAIGN = piloopCampaign(
  'name = "steps"\nevaluate = ["echo", "METRIC score=1"]',
  'harnesses = ["claude"]\nmodel = { claude = "m" }\n',
);

/** A piloop server with a campaign, and our worker of its pool `lab`. */
class Joined implements AsyncDisposable {
  private constructor(
    readonly cluster: Cluster,
    readonly peer: Piloop,
    readonly token: string,
    readonly server: string,
  ) {}

  static async make(executable: string): Promise<Joined> {
    const cluster = await Cluster.make();
    const { programs } = cluster;
    const peer = new Piloop(programs, executable);
    const repo = `${cluster.root}/repo`;
    await programs.write("repo/piloop.toml", CAMPAIGN);
    await programs.write("repo/brief.md", "Make the number larger.\n");
    await programs.write("repo/value", "1\n");
    await programs.git(repo, "init", "--quiet", "--initial-branch=main");
    await programs.git(repo, "add", "--all");
    await programs.git(repo, "commit", "--quiet", "--message", "first");
    await programs.write(
      "peer/config.toml",
      `[plugins.executor]\nrenew_seconds = 1\ngrace_seconds = 20\ntoleration_seconds = 60
[plugins.executor.pools.serve]\nagents = 0\nevaluations = 0
[plugins.executor.pools.lab]\nagents = 2\nevaluations = 1\n`,
    );
    await peer.run("peer", "init", repo);
    const token = /plt_[\w-]+/.exec(await peer.run("peer", "token", "create", "o1"))?.[0] ?? "";
    const [port, casPort] = [freePort(), freePort()];
    await peer.listen("peer", ["serve"], port);
    await peer.listen("peer", ["cas", "serve"], casPort);
    cluster.cas = `http://127.0.0.1:${casPort}`;
    await Deno.mkdir(`${cluster.root}/user`);
    const joined = new Joined(cluster, peer, token, `http://127.0.0.1:${port}`);
    await cluster.configureWorker("o1");
    await joined.start();
    return joined;
  }

  async start(): Promise<void> {
    const { cluster, token, server } = this;
    const env = {
      PATH: `${STUBS}:${Deno.env.get("PATH") ?? "/usr/bin:/bin"}`,
      HOME: `${cluster.root}/user`,
    };
    await cluster.startWorker("o1", token, { server, env });
  }

  /** Ask for an agent whose stub runs `script`; its id. */
  async launch(script: string): Promise<string> {
    const text = await this.peer.run(
      "peer",
      "launch",
      "steps",
      "scout",
      "--reason",
      `to try it\n\n$ ${script}\n`,
    );
    const id = /agent_session#(\d+)/.exec(text)?.[1];
    assert.ok(id !== undefined, text);
    return id;
  }

  /** The text of a file of the campaign's shared workspace, once it is there. */
  async shared(name: string): Promise<string> {
    const path = `${this.cluster.root}/peer/projects/1/workspace/${name}`;
    try {
      return await until(`${name} came back`, async () => {
        return await Deno.readTextFile(path).catch(() => null);
      }, 60);
    } catch (error) {
      throw new Error(await this.peer.run("peer", "events"), { cause: error });
    }
  }

  async finished(id: string): Promise<string> {
    return await until(`agent ${id} is finished`, async () => {
      const lines = (await this.peer.run("peer", "events")).split("\n");
      const mine = lines.filter((line) => line.includes(`agent_session#${id} `));
      return mine.find((line) => line.includes("agent_session.finished")) ?? null;
    }, 120);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.writeTextFile(`${this.cluster.root}/pass`, "");
    await this.peer[Symbol.asyncDispose]();
    await this.cluster[Symbol.asyncDispose]();
  }
}

Deno.test({
  name: `our worker runs agents of a piloop server, prompts them, and takes them over${SKIPPED}`,
  ignore: PILOOP === null,
  fn: async (t) => {
    await using joined = await Joined.make(PILOOP ?? "");
    const { cluster, peer } = joined;
    await t.step(
      "what it wrote in the workspace comes back, and it has the names of its prompts",
      async () => {
        const id = await joined.launch(
          "env | grep ^PILOOP_ >workspace/env; command -v piloop >>workspace/env; pwd >workspace/cwd",
        );
        const env = await joined.shared("env");
        for (const name of ["HOME", "BIN", "DEADLINE", "MESSAGES", "ACTOR"]) {
          assert.match(env, new RegExp(`^PILOOP_${name}=.`, "m"));
        }
        assert.match(env, new RegExp(`^PILOOP_ACTOR=scout#${id}$`, "m"));
        assert.match(env, /\/piloop\n$/);
        assert.match(await joined.shared("cwd"), /\/o1\/agent_sessions\//);
        await joined.finished(id);
      },
    );
    await t.step("a worker that is killed: the next one prompts it, and reports it", async () => {
      const { root } = cluster;
      const id = await joined.launch(
        `: >${root}/up; while [ ! -e ${root}/pass ]; do sleep 0.05; done; echo begun >workspace/said`,
      );
      await until("it is up", () => Deno.stat(`${root}/up`).then(() => true, () => false), 120);
      await until(
        "it runs",
        async () => (await peer.run("peer", "events")).includes("agent_session.running"),
      );
      cluster.programs.kill("o1");
      await cluster.programs.ended("o1");
      await joined.start();
      await peer.run("peer", "prompt", id, "$ echo prompted >workspace/prompted");
      await Deno.writeTextFile(`${root}/pass`, "");
      assert.equal(await joined.shared("said"), "begun\n");
      assert.equal(await joined.shared("prompted"), "prompted\n");
      await joined.finished(id);
    });
  },
});
