// deno-lint-ignore-file no-non-null-assertion -- a missing value fails the test anyway
/** @module A worker that the server refuses says why and exits with 4 or 8; its jobs stop. Bad config is one line each. */

import assert from "node:assert/strict";
import { until } from "../kit/mod.ts";
import { Cluster } from "./cluster.ts";

async function refused(
  cluster: Cluster,
  options: { token: string; pool?: string; cas?: string },
): Promise<{ code: number; stderr: string }> {
  const cas = options.cas ?? `provider = "http"\nurl = "${cluster.cas}"`;
  await cluster.programs.write("odd/config.toml", `[plugins.cas]\n${cas}\n`);
  const argv = ["worker", "--server", cluster.server, "--pool", options.pool ?? "lab"];
  return await cluster.programs.finish("odd", argv, { SUBLET_HTTPS_TOKEN: options.token });
}

Deno.test("a worker exits with the reason when its token, access, pool or store is wrong", async (t) => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  await cluster.serveCas();
  const good = await cluster.token("odd");
  await t.step("an unknown token: 4", async () => {
    const { code, stderr } = await refused(cluster, { token: "slt_" + "x".repeat(43) });
    assert.equal(code, 4, stderr);
    assert.match(stderr, /token/);
  });
  await t.step("a token of another access: 4", async () => {
    const { code, stderr } = await refused(cluster, {
      token: await cluster.token("reader", "--access", "read"),
    });
    assert.equal(code, 4, stderr);
    assert.match(stderr, /worker/);
  });
  await t.step(
    "a pool that the server does not know: 8, and the known ones are named",
    async () => {
      const { code, stderr } = await refused(cluster, { token: good, pool: "nowhere" });
      assert.equal(code, 8, stderr);
      assert.match(stderr, /nowhere.*lab.*serve/s);
    },
  );
  await t.step("a store that is not the server's: 8", async () => {
    const { code, stderr } = await refused(cluster, { token: good, cas: 'provider = "disk"' });
    assert.equal(code, 8, stderr);
    assert.match(stderr, /plugins\.cas/);
  });
  await t.step("no token at all: 4, and the variable is named", async () => {
    const { code, stderr } = await cluster.programs.finish("odd", [
      "worker",
      "--server",
      cluster.server,
      "--pool",
      "lab",
    ]);
    assert.equal(code, 4, stderr);
    assert.match(stderr, /SUBLET_HTTPS_TOKEN/);
  });
});

Deno.test("a worker whose token is revoked stops its job and exits with 4", async () => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  await cluster.serveCas();
  const [revision] = await cluster.campaign([1]);
  await cluster.worker("ant");
  await cluster.queue(revision!);
  await cluster.runsReach(1);
  const pid = Number((await cluster.runs())[0]?.split(" ")[1]);
  await cluster.programs.sublet("server", ["token", "revoke", "ant"]);
  assert.equal(await cluster.programs.ended("ant"), 4);
  await until("its evaluator is gone", () => gone(pid));
});

async function gone(pid: number): Promise<boolean> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => null);
  return stat === null || stat.split(") ").at(-1)?.[0] === "Z";
}

Deno.test("serve --check names every mistake of the config in a line of its own, and starts nothing", async () => {
  await using cluster = await Cluster.make();
  await cluster.programs.write(
    "bad/config.toml",
    '[plugins.executor]\nrenew_seconds = 100\ngrace_secs = 3\n[plugins.executor.pools.lab]\nevaluations = -1\n[plugins.network]\nlisten = "0.0.0.0:0"\n[plugins.cas]\nprovider = "floppy"\n',
  );
  const { code, stdout, stderr } = await cluster.programs.finish("bad", ["serve", "--check"]);
  assert.equal(code, 2, stderr);
  assert.equal(stdout, "");
  const lines = stderr.trim().split("\n");
  for (const key of ["grace_secs", "pools.lab.evaluations"]) {
    const naming = lines.filter((line) => line.includes(key));
    assert.equal(naming.length, 1, stderr);
    assert.match(naming[0]!, /config\.toml/);
  }
  assert.match(stderr, /-1/);
});

Deno.test("serve refuses to listen off loopback without tls, and says both ways out", async () => {
  await using cluster = await Cluster.make();
  const { code, stderr } = await cluster.programs.finish("server", [
    "serve",
    "--listen",
    "0.0.0.0:0",
  ]);
  assert.notEqual(code, 0);
  assert.match(stderr, /tls/);
  assert.match(stderr, /proxy/);
});

Deno.test("a second server in the same home is refused and names the first", async () => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  const { code, stderr } = await cluster.programs.finish("server", ["serve"]);
  assert.equal(code, 6, stderr);
  assert.match(stderr, /pid \d+/);
});

Deno.test("a command without a server exits with 7 and names the command that starts one", async () => {
  await using cluster = await Cluster.make();
  const { code, stderr } = await cluster.programs.finish("server", ["status"]);
  assert.equal(code, 7, stderr);
  assert.match(stderr, /sublet serve/);
});

Deno.test("init names the linked inputs that are not there", async () => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  await cluster.campaign([1]);
  const file = `${cluster.root}/repo/sublet.toml`;
  await Deno.writeTextFile(file, `link = ["data", "value"]\n${await Deno.readTextFile(file)}`);
  const argv = ["init", `${cluster.root}/repo`, "--no-measure"];
  const { code, stderr } = await cluster.programs.finish("server", argv);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^link "data": there is no such path now/m);
  assert.doesNotMatch(stderr, /"value"/);
});

Deno.test("eval says why nothing happens", async () => {
  await using cluster = await Cluster.make();
  await cluster.serve();
  await cluster.campaign([1]);
  const argv = ["eval", "main", "--campaign", "steps"];
  await using child = cluster.programs.command("server", argv).spawn();
  let said = "";
  for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
    said += text;
    if (/^waits: .*\n/m.test(said)) break;
  }
  await child.stdout.cancel();
  assert.match(said, /^waits: no worker has registered yet/m);
});

Deno.test("an unknown command suggests the nearest and exits with 2", async () => {
  await using cluster = await Cluster.make();
  const { code, stderr } = await cluster.programs.finish("server", ["stauts"]);
  assert.equal(code, 2);
  assert.match(stderr, /status/);
});
