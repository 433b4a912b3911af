import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import { AgentKit, AgentWorker, finished, sure } from "./agents_kit.ts";

/** Every file beneath `root`, with its content. */
async function tree(root: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for await (const { name, isDirectory, isSymlink } of Deno.readDir(root)) {
    const path = `${root}/${name}`;
    if (isSymlink) found[path] = `-> ${await Deno.readLink(path)}`;
    else if (isDirectory) Object.assign(found, await tree(path));
    else found[path] = await Deno.readTextFile(path).catch(() => "?");
  }
  return found;
}

const refused = (promise: Promise<unknown>, ...codes: string[]) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof SubletError && codes.includes(error.code), String(error));
    return true;
  });

const PATHS = [
  "../escape",
  "/etc/escape",
  "a/../../escape",
  ".git/hooks/post-commit",
  "x/.GIT/config",
  "git~1/config",
  "a\\..\\b",
  "C:escape",
  "a\0b",
  "",
  "__proto__",
];

Deno.test("a report with a path that could leave its root is refused whole, and changes nothing", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const cid = await kit.put("hostile");
  const work = await kit.work(agent.base, { "a.txt": "a" });
  const before = [await tree(kit.kit.repo.path), await kit.agents.agent(agent.agent)];
  for (const path of PATHS) {
    const named = JSON.parse(`{${JSON.stringify(path)}: ${JSON.stringify(cid)}}`);
    for (const key of ["files", "workspace"]) {
      await refused(
        worker.report(lease, finished({ work, [key]: named })),
        "unsafe_path",
        "invalid_body",
      );
    }
    // As a value it is a name like any other.
    if (path === "__proto__") continue;
    const session = { file: cid, name: path, cwd: null };
    await refused(
      worker.report(lease, finished({ work, session })),
      "unsafe_path",
      "invalid_body",
    );
  }
  assert.deepEqual(await kit.agents.agent(agent.agent), before[1]);
  assert.deepEqual(await tree(kit.kit.repo.path), before[0]);
});

Deno.test("reports that are not of their shape, or name blobs that are not there, change nothing", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const cid = await kit.put("x");
  const absent = cid.slice(0, -4) + "aaaa";
  for (
    const report of [
      { kind: "evaluation", samples: [{ metrics: {}, seconds: 1 }] },
      { kind: "agent_finished" },
      finished({ process: { status: "vanished", seconds: 1 } }),
      finished({ work: { blob: cid, head: "refs/heads/main" } }),
      finished({ work: { blob: cid, head: "--upload-pack=x" } }),
      finished({ usage: { input: -1 } }),
      finished({ branches: Array(2000).fill({ name: "b", revision: agent.base }) }),
      finished({ read: Array(20_000).fill(1) }),
      null,
      [],
      "x",
    ]
  ) await refused(worker.report(lease, report as object), "invalid_body");
  for (
    const report of [
      finished({ files: { "a.log": absent } }),
      finished({ workspace: { "a.txt": absent } }),
      finished({ work: { blob: absent, head: agent.base } }),
      finished({ session: { file: absent, name: "s", cwd: null } }),
    ]
  ) await refused(worker.report(lease, report), "missing_blobs", "invalid_body");
  assert.equal((await kit.agents.agent(agent.agent)).state, "running");
});

Deno.test("only who holds the newest lease of the job reports, and once", async () => {
  await using kit = await AgentKit.make();
  const agent = await kit.ask();
  const worker = await kit.worker();
  const first = await worker.acquire();
  await kit.engine.lost(worker.caller, first.lease, "its disk is full");
  const other = await kit.worker("w2");
  // The retry waits a moment.
  let grant = null;
  while (grant === null) grant = await other.start().catch(() => null);
  const work = await kit.work(agent.base, { "a.txt": "a" });
  const report = finished({ work, workspace: { "w.txt": await kit.put("stale") } });
  await refused(worker.report(first.lease, report), "stale_lease");
  await refused(worker.report(grant.lease, report), "stale_lease");
  await refused(new AgentWorker(kit, "w2", "another").report(grant.lease, report), "stale_lease");
  assert.equal(await kit.kit.repo.git("for-each-ref", "refs/sublet"), "");
  assert.equal((await kit.agents.agent(agent.agent)).state, "running");

  const mine = finished({ workspace: { "w.txt": await kit.put("mine") } });
  const receipts = [
    await other.report(grant.lease, mine, "r1"),
    await other.report(grant.lease, mine, "r1"),
  ];
  assert.deepEqual(receipts[0], receipts[1]);
  await refused(other.report(grant.lease, report, "r2"), "stale_lease");
  const ended = await kit.ended(agent.agent);
  assert.equal(ended.state, "finished");
  assert.equal(await Deno.readTextFile(`${kit.workspace}/w.txt`), "mine");
  // What came too late is kept where it does nothing.
  const evidence = await kit.engine.evidence(sure(agent.job));
  assert.equal(evidence.length, 4);
});

Deno.test("a link in the shared workspace leads nothing out of it", async () => {
  await using kit = await AgentKit.make();
  const outside = kit.kit.dir.join("outside");
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${outside}/file`, "mine");
  await Deno.mkdir(kit.workspace, { recursive: true });
  await Deno.symlink(outside, `${kit.workspace}/dir`);
  await Deno.symlink(`${outside}/file`, `${kit.workspace}/file`);
  await Deno.symlink(`${outside}/new`, `${kit.workspace}/dangling`);
  const agent = await kit.ask();
  const worker = await kit.worker();
  const { lease } = await worker.start();
  const cid = await kit.put("hostile");
  const workspace = { "dir/file": cid, "dir/new": cid, file: cid, dangling: cid, fine: cid };
  await worker.report(lease, finished({ workspace }));
  const ended = await kit.ended(agent.agent);
  assert.equal(ended.state, "finished");
  const landed = sure(ended.landed).workspace;
  assert.deepEqual(Object.keys(landed.blocked).sort(), ["dangling", "dir/file", "dir/new", "file"]);
  assert.equal(landed.written, 1);
  assert.deepEqual(await tree(outside), { [`${outside}/file`]: "mine" });
});
