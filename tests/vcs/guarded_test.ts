/** @module Capturing work where a supervisor judges each call of git: every one that it needs is let through. */

import assert from "node:assert/strict";
import { nullLog, systemClock, systemIds } from "../../lib/home/mod.ts";
import { GuardedProcesses } from "../../lib/lease/machine/guarded_processes.ts";
import { systemProcesses } from "../../lib/lease/machine/processes.ts";
import { foreignGitCall, GIT_ENV, GitVcs, LEADING } from "../../lib/vcs/mod.ts";
import { Bench, git } from "./kit.ts";

Deno.test("odd work comes home past a supervisor", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  await work.git("config", "filter.x.smudge", "cat");
  const base = await work.commit({
    ".gitattributes": "*.u16 working-tree-encoding=UTF-16\n",
    "gone": "g\n",
    "kept": "k\n",
  });
  await Deno.mkdir(bench.dir.join("home"));
  const home = await Deno.realPath(bench.dir.join("home"));
  const vcs = new GitVcs({
    processes: new GuardedProcesses(systemProcesses(), home),
    clock: systemClock,
    ids: systemIds,
    log: nullLog,
  });
  const replica = await vcs.replica(`${home}/clones/1`);
  const path = `${home}/runs/1/worktree`;
  await replica.checkout(base, path, { cas: bench.cas, ask: bench.asks(record) });
  await git(path, "checkout", "-q", "-b", "side");
  await git(path, "commit", "-q", "--allow-empty", "-m", "Side");
  await git(path, "checkout", "-q", "--detach", base);
  await git(path, "commit", "-q", "--allow-empty", "-m", "Main");
  await git(path, "worktree", "add", "-q", "-f", "tree", "side");
  await Deno.writeTextFile(`${path}/tree/t`, "t");
  await Deno.remove(`${path}/gone`);
  await Deno.writeFile(`${path}/bad.u16`, new Uint8Array([0xd8, 0x00, 0x01]));
  await Deno.writeTextFile(`${path}/kept`, "changed");
  await Deno.mkdir(`${path}/inner`);
  await git(`${path}/inner`, "init", "-q");
  await Deno.writeTextFile(`${path}/inner/x`, "x");
  assert.equal(await replica.changed(path, base), true);
  const captured = await replica.capture(bench.cas, path, base);
  assert.ok(captured.work);
  assert.equal((await record.receive(bench.cas, captured.work, base)).length, 2);
  const names = ["bad.u16", "inner/x", "kept", "gone"];
  assert.deepEqual(await record.untracked(captured.work.head, names), ["gone"]);
  assert.equal(captured.branches.length, 2, JSON.stringify(captured.branches));
  await replica.discard(path);
  assert.deepEqual(await replica.checkouts(home), []);
});

Deno.test("options of the new calls that would run or write something are not ours", () => {
  const foreign = (...args: string[]) => foreignGitCall([...LEADING, ...args], GIT_ENV);
  assert.equal(foreign("update-index", "-z", "--add", "--stdin"), null);
  assert.equal(foreign("hash-object", "-t", "commit", "-w", "--stdin"), null);
  assert.equal(foreign("init", "--quiet", "--bare", "1.making-2"), null);
  for (
    const args of [
      ["diff-files", "-p", "--ext-diff"],
      ["diff-files", "--textconv"],
      ["diff-files", "--output=/etc/x"],
      ["ls-files", "--recurse-submodules"],
      ["ls-files", "--exclude-from=/etc/shadow"],
      ["update-index", "--fsmonitor"],
      ["hash-object", "--path=x", "-w", "y"],
      ["hash-object", "-t", "blob", "-w", "--stdin", "link"],
      ["hash-object", "-w", "/root/.ssh/id_ed25519"],
      ["pack-objects", "-q", "/etc/pack"],
      ["pack-objects", "-q", "../../pack"],
      ["init", "--quiet", "--bare", "/etc/x"],
      ["index-pack", "/var/lib/x.pack"],
      ["commit", "-m", "x"],
      ["add", "-A"],
      ["clone", "https://x", "y"],
      ["-c", "merge.x.driver=touch", "version"],
      ["-c", "filter.x.clean=cat", "version"],
      ["-c", "protocol.allow=always", "version"],
      ["-c", "credential.helper=store", "version"],
    ]
  ) assert.notEqual(foreign(...args), null, args.join(" "));
});
