/**
 * @module Interoperation with a real piloop 0.3.1, both ways. `SUBLET_TEST_PILOOP` names its executable; without it
 * these tests are skipped, and the recorded ones (`piloop_worker_test.ts`, `piloop_server_test.ts`) stand alone.
 */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { until } from "../kit/mod.ts";
import { Cluster, type EvaluationResult } from "./cluster.ts";
import { freePort, PILOOP, Piloop } from "./piloop_kit.ts";

const SKIPPED = PILOOP === null ? " (skipped: SUBLET_TEST_PILOOP names no piloop)" : "";

function test(name: string, body: (executable: string, t: Deno.TestContext) => Promise<void>) {
  Deno.test({ name: name + SKIPPED, ignore: PILOOP === null, fn: (t) => body(PILOOP ?? "", t) });
}

/** Prints what it finds in its inputs; waits while `hold` holds its value; then fails, or prints its metric. */
const SCRIPT = `
echo "inputs $(cat data/a.txt) $(cat data/link) $(data/sub/run.sh) $(wc -c < data/empty) $(cat one.txt)"
value=$(cat value)
echo "start $value" >> "$1/runs"
while [ "$(cat "$1/hold")" = "$value" ]; do sleep 0.1; done
case "$value" in
  fail) echo oops >&2; exit 3 ;;
  missing) echo METRIC other=1 ;;
  *) echo "METRIC score=$value"; printf '{"score":{"a":%s}}' "$value" > "$PILOOP_UNITS_FILE" ;;
esac
`;
const INPUTS = "inputs one one two 0 three";
/** What a piloop campaign has besides: a harness that is never used, and no roles that ask for agents. */
const CAMPAIGN = `harnesses = ["fake"]
[model]
fake = "none"
[harness.fake]
executable = "sh"
headless = ["-c", "true", "{prompt}"]
[roles.watchdog]
triggers = []
[roles.research]
triggers = []
[roles.scout]
triggers = []
`;
const VALUES = ["1", "2", "3", "fail", "missing", "4"];

/** A repository of one commit (and one branch) a value, whose checkouts need ignored inputs. */
async function makeRepository(cluster: Cluster, file: string, more = ""): Promise<string> {
  const { programs, root } = cluster;
  const repo = `${root}/repo`;
  await programs.write("hold", "");
  await programs.write("repo/evaluate.sh", SCRIPT);
  await programs.write("repo/.gitignore", "/data\n/one.txt\n");
  await programs.write("repo/brief.md", "Make the number larger.\n");
  await programs.write("repo/data/a.txt", "one");
  await programs.write("repo/data/empty", "");
  await programs.write("repo/data/sub/run.sh", "#!/bin/sh\necho two\n");
  await Deno.chmod(`${repo}/data/sub/run.sh`, 0o755);
  await Deno.symlink("a.txt", `${repo}/data/link`);
  await programs.write("repo/one.txt", "three");
  await programs.write(
    `repo/${file}`,
    `name = "steps"\nevaluate = ["sh", "evaluate.sh", ${JSON.stringify(root)}]
evaluate_timeout = 120\nlink = ["data", "one.txt"]\n${more}
[[metrics]]\nname = "score"\ndirection = "higher"\nrole = "primary"\n`,
  );
  await programs.git(repo, "init", "--quiet", "--initial-branch=main");
  for (const value of VALUES) {
    await programs.write("repo/value", `${value}\n`);
    await programs.git(repo, "add", "--all");
    await programs.git(repo, "commit", "--quiet", "--message", `value ${value}`);
    await programs.git(repo, "branch", `v-${value}`);
  }
  await programs.git(repo, "checkout", "--quiet", "-B", "main", "v-1");
  return repo;
}

test("a piloop worker joins our server and store, and runs its evaluations", async (piloop, t) => {
  await using cluster = await Cluster.make();
  await using peer = new Piloop(cluster.programs, piloop);
  await cluster.serve();
  await cluster.serveCas();
  const repo = await makeRepository(cluster, "sublet.toml");
  await cluster.programs.sublet("server", ["init", repo, "--no-measure"]);
  const token = await cluster.token("p1");
  const join = () => peer.worker("p1", { server: cluster.server, cas: cluster.cas, token });
  let worker = await join();
  const evaluate = async (...args: string[]): Promise<EvaluationResult[]> => {
    const argv = ["eval", ...args, "--campaign", "steps", "--json"];
    const text = await cluster.programs.sublet("server", argv, { mayFail: true });
    return text.trim().split("\n").map((line) => JSON.parse(line));
  };
  const hold = (value: string) => Deno.writeTextFile(`${cluster.root}/hold`, value);
  const log = async ({ job }: EvaluationResult, name: string) =>
    await cluster.programs.sublet("server", ["job", "logs", String(job), name]);

  await t.step("success, with its inputs in place", async () => {
    const [done] = await evaluate("v-2");
    assert.ok(done);
    assert.deepEqual([done.state, done.metrics, done.worker], ["measured", { score: 2 }, "p1"]);
    assert.match(await log(done, "candidate-0/eval.stdout"), new RegExp(`^${INPUTS}$`, "m"));
  });
  await t.step("a command that fails, and one without its metric", async () => {
    for (const [value, why] of [["fail", /exit 3.*oops/], ["missing", /score/]] as const) {
      const [done] = await evaluate(`v-${value}`);
      assert.equal(done?.state, "failed");
      assert.match(done?.error ?? "", why);
    }
  });
  await t.step("pairs, compared over their units", async () => {
    const [done] = await evaluate(
      "v-3",
      "--against",
      "v-2",
      "--repeats",
      "2",
    ) as (EvaluationResult & { comparison: { verdict: string } })[];
    assert.deepEqual([done?.state, done?.comparison.verdict], ["measured", "keep"]);
    assert.ok(done && "bar-1/eval.stdout" in done.files, JSON.stringify(done?.files));
  });
  await t.step("cancelled while it runs", async () => {
    const runs = (await cluster.runs()).length;
    await hold("4");
    const [queued] = await cluster.queue("v-4");
    assert.ok(queued);
    await cluster.runsReach(runs + 1);
    await cluster.programs.sublet("server", ["job", "cancel", String(queued.job)]);
    assert.equal((await cluster.ended(queued, 240)).state, "cancelled");
    await until("it stopped", () => worker.text.includes("why=revoke"), 120);
  });
  await t.step("killed and started again: what it held runs once more", async () => {
    const runs = (await cluster.runs()).length;
    const [queued] = await cluster.queue("v-4");
    assert.ok(queued);
    await cluster.runsReach(runs + 1);
    worker.kill("SIGKILL");
    await worker.ended();
    await hold("");
    worker = await join();
    const { state, attempts } = await cluster.ended(queued, 240);
    assert.deepEqual([state, attempts], ["measured", 2]);
  });
  await t.step("the server killed and started again while it runs", async () => {
    const runs = (await cluster.runs()).length;
    await hold("3");
    const [queued] = await cluster.queue("v-3");
    assert.ok(queued);
    await cluster.runsReach(runs + 1);
    cluster.programs.kill("server");
    await cluster.programs.ended("server");
    await cluster.serve();
    await hold("");
    const { state, metrics } = await cluster.ended(queued, 240);
    assert.deepEqual([state, metrics], ["measured", { score: 3 }]);
  });
  await t.step("drained, it leaves with 0; refused, with 1 and the reason", async () => {
    await cluster.programs.sublet("server", ["worker", "drain", "p1"]);
    assert.equal(await worker.ended(), 0, worker.text);
    await cluster.programs.sublet("server", ["worker", "resume", "p1"]);
    worker = await join();
    assert.equal((await evaluate("v-1"))[0]?.state, "measured");
    await cluster.programs.sublet("server", ["token", "revoke", "p1"]);
    assert.equal(await worker.ended(), 1, worker.text);
    assert.match(worker.text, /dismissed.*token/);
  });
});

test("our worker joins a piloop server and store, and runs its evaluations", async (piloop, t) => {
  await using cluster = await Cluster.make();
  const { programs } = cluster;
  await using peer = new Piloop(programs, piloop);
  const repo = await makeRepository(cluster, "piloop.toml", CAMPAIGN);
  await programs.write(
    "peer/config.toml",
    `[plugins.executor]\nrenew_seconds = 1\ngrace_seconds = 4\ntoleration_seconds = 10
[plugins.executor.pools.serve]\nagents = 0\nevaluations = 0
[plugins.executor.pools.lab]\nagents = 0\nevaluations = 2\n`,
  );
  await peer.run("peer", "init", repo);
  const token = /plt_[\w-]+/.exec(await peer.run("peer", "token", "create", "o1"))?.[0] ?? "";
  const [port, casPort] = [freePort(), freePort()];
  await peer.listen("peer", ["serve"], port);
  await peer.listen("peer", ["cas", "serve"], casPort);
  cluster.cas = `http://127.0.0.1:${casPort}`;
  const server = `http://127.0.0.1:${port}`;
  await cluster.worker("o1", { token, server });

  const events = () => peer.run("peer", "events");
  const measure = async (value: string): Promise<string> => {
    const text = await peer.run("peer", "candidate", "import", "steps", `v-${value}`);
    const candidate = /candidate#(\d+)/.exec(text)?.[1];
    assert.ok(candidate !== undefined, text);
    return candidate;
  };
  /** The measurements of `candidate`, once there are `count`. */
  const measured = async (candidate: string, count: number): Promise<string[]> =>
    await until(`${count} measurements of candidate ${candidate}`, async () => {
      const lines = (await events()).split("\n").filter((line) =>
        line.includes("measurement.recorded") && line.includes(`"candidate": ${candidate},`)
      );
      return lines.length >= count ? lines : null;
    }, 240);
  const hold = (value: string) => Deno.writeTextFile(`${cluster.root}/hold`, value);

  await t.step("success, with its inputs in place, and again in repeats", async () => {
    const candidate = await measure("2");
    assert.match((await measured(candidate, 1)).join(), /"score": 2\.0/);
    await peer.run("peer", "candidate", "remeasure", candidate, "--repeats", "2");
    assert.equal((await measured(candidate, 3)).length, 3);
  });
  await t.step("a command that fails", async () => {
    const lines = await measured(await measure("fail"), 1);
    assert.match(lines.join(), /exit 3|code 3|oops/);
  });
  await t.step("killed and started again: what it held runs once more", async () => {
    const runs = (await cluster.runs()).length;
    await hold("3");
    const candidate = await measure("3");
    await cluster.runsReach(runs + 1);
    programs.kill("o1");
    await programs.ended("o1");
    await hold("");
    await cluster.startWorker("o1", token, { server });
    assert.match((await measured(candidate, 1)).join(), /"score": 3\.0/);
    assert.equal((await cluster.runs()).length, runs + 2);
  });
  await t.step("a wrong token: 4; an unknown pool: 8", async () => {
    await cluster.configureWorker("odd");
    const refused = async (pool: string, token: string) =>
      (await programs.finish("odd", ["worker", "--server", server, "--pool", pool], {
        SUBLET_HTTPS_TOKEN: token,
      })).code;
    assert.equal(await refused("lab", `plt_${"x".repeat(43)}`), 4);
    assert.equal(await refused("nope", token), 8);
  });
});

test("a store's directory is read and written by both", async (piloop) => {
  await using cluster = await Cluster.make();
  const { programs, root } = cluster;
  await using peer = new Piloop(programs, piloop);
  const table = `[plugins.cas]\nprovider = "disk"\npath = "${root}/shared"\n`;
  await programs.write("ours/config.toml", table);
  await programs.write("peer/config.toml", table);
  const random = crypto.getRandomValues(new Uint8Array(65_536));
  const blobs: [string, Uint8Array<ArrayBuffer>][] = [
    ["nothing", new Uint8Array()],
    ["a byte", Uint8Array.of(120)],
    ["a MiB of zeros", new Uint8Array(2 ** 20)],
    ["text", new TextEncoder().encode("the quick brown fox\n".repeat(200_000))],
    ["3 MiB of noise", new Uint8Array(3 * 2 ** 20).map((_, i) => random[(i * 7919) % 65_536] ?? 0)],
  ];
  // The home's database comes with its first campaign.
  await peer.run("peer", "init", await makeRepository(cluster, "piloop.toml", CAMPAIGN));
  const token = /plt_[\w-]+/.exec(await peer.run("peer", "token", "create", "o1"))?.[0] ?? "";
  const port = freePort();
  await peer.listen("peer", ["cas", "serve"], port);
  const dial = async (method: string, cid: string, body?: Uint8Array<ArrayBuffer>) =>
    await fetch(`http://127.0.0.1:${port}/v1/cas/${cid}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body }),
    });
  for (const [what, bytes] of blobs) {
    await Deno.writeFile(`${root}/blob`, bytes);
    const cid = (await programs.sublet("ours", ["cas", "put", `${root}/blob`])).trim();
    const got = await dial("GET", cid);
    assert.equal(got.status, 200, what);
    assert.ok(same(await got.bytes(), bytes), `${what}: piloop reads other bytes`);

    const theirs = Uint8Array.of(...new TextEncoder().encode(what), 0, ...bytes.subarray(0, 9000));
    const name = String(cidOf(theirs));
    const put = await dial("PUT", name, theirs);
    assert.equal(`${put.status} ${await put.text()}`, "201 ", what);
    await programs.sublet("ours", ["cas", "get", name, `${root}/got`]);
    assert.ok(same(await Deno.readFile(`${root}/got`), theirs), `${what}: we read other bytes`);
  }
  await programs.sublet("ours", ["cas", "check"]);
});

function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
