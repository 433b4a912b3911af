/** @module Processes that left their job's session, group and environment: they are found by where they stand. */

import assert from "node:assert/strict";
import { isError, type ProcessRef } from "../../lib/home/mod.ts";
import { GuardedProcesses } from "../../lib/lease/machine/guarded_processes.ts";
import { escaped, parseLinks, parseLsof } from "../../lib/lease/machine/process_place.ts";
import { systemProcesses } from "../../lib/lease/machine/processes.ts";
import { TempDir, until } from "../kit/mod.ts";

const processes = systemProcesses();

async function lives(pid: number): Promise<boolean> {
  return await processes.alive({ pid, startTime: null });
}

/** The pid that a process wrote to `path`. */
async function pidAt(path: string): Promise<number> {
  let pid = 0;
  await until("it says its pid", async () => {
    pid = Number((await Deno.readTextFile(path).catch(() => "")).trim());
    return pid > 0;
  });
  return pid;
}

/** A job in `place` whose script ends once the process that it lets go has written its pid to `<dir>/pid`. */
async function escape(dir: TempDir, place: string, script: string): Promise<ProcessRef> {
  await Deno.mkdir(place, { recursive: true });
  const free = `setsid env -i /bin/sh -c '${script}' </dev/null >/dev/null 2>&1 &`;
  const wait = `while ! [ -s ${dir.join("pid")} ]; do sleep 0.02; done`;
  return await processes.start({
    argv: ["/bin/sh", "-c", `(${free}) & ${wait}`],
    cwd: place,
    env: {},
    stdout: `${place}/out`,
    stderr: `${place}/err`,
    tag: crypto.randomUUID(),
    place,
  });
}

const ESCAPES: Record<string, (dir: TempDir) => string> = {
  "its working directory": (dir) => `echo $$ >${dir.join("pid")}; exec sleep 1000`,
  "its output": (dir) => `exec >>err; cd /; echo $$ >${dir.join("pid")}; exec sleep 1000`,
  "a directory that is gone": (dir) =>
    `mkdir sub; cd sub; rmdir ../sub; echo $$ >${dir.join("pid")}; exec sleep 1000`,
};

for (const [what, script] of Object.entries(ESCAPES)) {
  Deno.test(`stop ends what left its session and dropped its tag, by ${what}`, async () => {
    await using dir = await TempDir.make();
    const place = dir.join("a place é/lease-7");
    const ref = await escape(dir, place, script(dir));
    const pid = await pidAt(dir.join("pid"));
    await processes.wait(ref);
    assert.equal(await lives(pid), true);
    await processes.stop(ref, null, 0);
    assert.equal(await lives(pid), false);
  });
}

Deno.test("a later process of the worker finds by the place what an earlier one's job let go", async () => {
  await using dir = await TempDir.make();
  const place = dir.join("lease-7");
  const ref = await escape(dir, place, `echo $$ >${dir.join("pid")}; exec sleep 1000`);
  const pid = await pidAt(dir.join("pid"));
  await processes.wait(ref);
  await systemProcesses().stop({ pid: 2 ** 31 - 1, startTime: 0 }, null, 0, place);
  assert.equal(await lives(pid), false);
});

Deno.test("who stands beside the place, or stood in it before the job, is not stopped", async () => {
  await using dir = await TempDir.make();
  const place = dir.join("lease-7");
  for (const each of [place, `${place}0`]) await Deno.mkdir(each);
  const sleep = (cwd: string) => new Deno.Command("sleep", { args: ["1000"], cwd }).spawn();
  const others = [sleep(place), sleep(`${place}0`)];
  try {
    const since = Date.now() / 1000 + 60;
    await processes.stop({ pid: 2 ** 31 - 1, startTime: since }, null, 0, place);
    for (const { pid } of others) assert.equal(await lives(pid), true);
    await processes.stop({ pid: 2 ** 31 - 1, startTime: 0 }, null, 0, place);
    assert.deepEqual(await Promise.all(others.map(({ pid }) => lives(pid))), [false, true]);
  } finally {
    for (const { pid, status } of others) {
      if (await lives(pid)) Deno.kill(pid, "SIGKILL");
      await status;
    }
  }
});

Deno.test("a supervisor takes a lease's directory in its home for a place, and nothing else", async () => {
  const home = "/nowhere/home";
  const guarded = new GuardedProcesses(processes, home);
  const stop = (place: string) => guarded.stop({ pid: 2 ** 31 - 1, startTime: 0 }, null, 0, place);
  await stop(`${home}/runs/1/lease-7`);
  for (
    const place of [
      home,
      `${home}/runs`,
      "/lease-7",
      `${home}/../lease-7`,
      `${home}/a/../../lease-7`,
      `${home}/lease-7/`,
      "lease-7",
    ]
  ) {
    await assert.rejects(stop(place), (error) => isError(error, "unsafe_path"), place);
  }
});

Deno.test("links of processes are read however they are written", () => {
  const place = "/home/a b/é/lease-1";
  assert.equal(escaped(place), "/home/a b/\\303\\251/lease-1");
  const lines = [
    `11/cwd -> ${escaped(place)}`,
    `12/root -> ${escaped(`${place}/x`)}`,
    `13/fd/2 -> ${escaped(place)} (deleted)`,
    `14/cwd -> ${escaped(place)}0`,
    `15/fd/1 -> pipe:[${escaped(place)}]`,
    `'16/cwd' -> '/home/a b/\u00c3\u00a9/lease-1'`,
    "17/cwd",
  ];
  assert.deepEqual(parseLinks(lines.join("\n"), place), [11, 12, 13, 16]);
  assert.deepEqual(
    parseLsof("p5\nfcwd\nn/a/lease-1\np6\nfcwd\nn/a/lease-10\nf1\nn/a/lease-1/out\n", "/a/lease-1"),
    [5, 6],
  );
});
