/** @module Processes that outlive their worker, children that hide from it, and sessions of harnesses, on this machine. */

import assert from "node:assert/strict";
import type { ProcessRef, StartSpec } from "../../lib/home/mod.ts";
import type { SessionPattern } from "../../lib/job/mod.ts";
import { groupDirectory } from "../../lib/lease/machine/control_group.ts";
import { GuardedProcesses } from "../../lib/lease/machine/guarded_processes.ts";
import { GuardedSessions } from "../../lib/lease/machine/guarded_sessions.ts";
import { systemProcesses } from "../../lib/lease/machine/processes.ts";
import { SystemSessionFiles } from "../../lib/lease/machine/session_files.ts";
import { run, TempDir, until } from "../kit/mod.ts";

const ENV = { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin" };

/** A directory, and a worker's processes in it. */
class Machine implements AsyncDisposable {
  readonly processes = systemProcesses({ env: ENV });
  readonly #started: { ref: ProcessRef; tag: string }[] = [];

  private constructor(readonly dir: TempDir) {}

  static async make(): Promise<Machine> {
    return new Machine(await TempDir.make());
  }

  spec(script: string, seconds = 60, more: Partial<StartSpec> = {}): StartSpec {
    const name = crypto.randomUUID();
    return {
      argv: ["/bin/sh", "-c", script],
      cwd: this.dir.path,
      env: {},
      stdout: this.dir.join(`${name}.out`),
      stderr: this.dir.join(`${name}.err`),
      tag: name,
      outlives: { exit: this.dir.join(`${name}.exit`), seconds },
      ...more,
    };
  }

  async start(spec: StartSpec, processes = this.processes): Promise<ProcessRef> {
    const ref = await processes.start(spec);
    this.#started.push({ ref, tag: spec.tag });
    return ref;
  }

  /** The number that a script wrote into the file `name`. */
  async number(name: string): Promise<number> {
    return await until(`${name} is written`, async () => {
      const text = await Deno.readTextFile(this.dir.join(name)).catch(() => "");
      return text.endsWith("\n") ? Number(text) : null;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { ref, tag } of this.#started) await this.processes.stop(ref, tag, 0);
    await this.dir[Symbol.asyncDispose]();
  }
}

Deno.test("how a process ended is written down, for whoever comes after its worker", async (test) => {
  await using machine = await Machine.make();
  const cases: [string, string][] = [["exit 0", "0\n"], ["exit 7", "7\n"], ["kill -9 $$", "137\n"]];
  for (const [script, written] of cases) {
    await test.step(script, async () => {
      const spec = machine.spec(script);
      const ref = await machine.start(spec);
      await machine.processes.wait(ref);
      assert.equal(await Deno.readTextFile(spec.outlives?.exit ?? ""), written);
    });
  }
});

Deno.test("a process that outlives its worker still gets TERM first, and its end is written down", async () => {
  await using machine = await Machine.make();
  const spec = machine.spec(
    "trap 'echo bye; exit 5' TERM; echo up >up; while :; do sleep 0.05; done",
  );
  const ref = await machine.start(spec);
  await until("it is up", () => Deno.stat(machine.dir.join("up")).then(() => true, () => false));
  await machine.processes.stop(ref, spec.tag, 10_000);
  assert.equal(await Deno.readTextFile(spec.stdout), "bye\n");
  assert.equal(await Deno.readTextFile(spec.outlives?.exit ?? ""), "5\n");
});

Deno.test("its watchdog goes with it, however soon it ends", async () => {
  await using machine = await Machine.make();
  const specs = Array.from({ length: 40 }, () => machine.spec("exit 0", 12_345));
  const refs = await Promise.all(specs.map((spec) => machine.start(spec)));
  for (const ref of refs) await machine.processes.wait(ref);
  const groups = new Set(refs.map(({ pid }) => pid));
  await until(
    "nothing of their groups is left",
    async () =>
      !(await run(["ps", "-axo", "pgid="])).split("\n").some((line) => groups.has(Number(line))),
  );
});

Deno.test("another process of the worker waits for it, stops it, and takes no other for it", async () => {
  await using machine = await Machine.make();
  const spec = machine.spec("echo $$ >pid; sleep 300");
  const ref = await machine.start(spec);
  const pid = await machine.number("pid");
  const later = systemProcesses({ env: ENV });
  assert.equal(await later.alive(ref), true);
  assert.equal(await later.alive({ ...ref, startTime: (ref.startTime ?? 0) - 100 }), false);
  const waiting = later.wait(ref);
  await later.stop(ref, spec.tag, 100);
  assert.deepEqual(await waiting, { code: null, signal: null });
  assert.equal(await machine.processes.alive({ pid, startTime: null }), false);
});

Deno.test("a child in a session of its own, without tag and elsewhere, is stopped while its parent lives", async () => {
  await using machine = await Machine.make();
  const spec = machine.spec(
    "setsid env -i /bin/sh -c 'cd /; echo $$ >$0; exec sleep 300 </dev/null >/dev/null 2>&1' \"$PWD/hidden\" & sleep 300",
    60,
    { cwd: machine.dir.path },
  );
  const ref = await machine.start(spec);
  const pid = await machine.number("hidden");
  await machine.processes.stop(ref, spec.tag, 100);
  assert.equal(await machine.processes.alive({ pid, startTime: null }), false);
});

Deno.test("a program that starts itself again and again is stopped for good", async () => {
  await using machine = await Machine.make();
  const script =
    'n=0; while [ $n -lt 400 ]; do n=$((n + 1)); setsid sh -c "sleep 0.01; exec sleep 300" & done; sleep 300';
  const spec = machine.spec(script, 60, { place: machine.dir.path });
  const ref = await machine.start(spec);
  await new Promise((resolve) => setTimeout(resolve, 300));
  await machine.processes.stop(ref, spec.tag, 0);
  const left = await run([
    "/bin/sh",
    "-c",
    `grep -lzsF 'SUBLET_PROCESS_TAG=${spec.tag}' /proc/[0-9]*/environ || true`,
  ]);
  assert.equal(left, "");
});

/** A place where control groups can be made, when this test may make one. */
async function mountGroups(dir: TempDir): Promise<boolean> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return false;
  await Deno.mkdir(dir.join("groups"));
  const { success } = await new Deno.Command("mount", {
    args: ["-t", "cgroup2", "none", dir.join("groups")],
    stderr: "null",
  }).output();
  return success;
}

{
  const dir = await TempDir.make();
  const can = await mountGroups(dir);
  if (can) await run(["umount", dir.join("groups")]);
  await dir[Symbol.asyncDispose]();
  Deno.test({
    name: `a daemon that hides from everything but its control group is stopped${
      can ? "" : " (SKIPPED: it takes root and cgroup2)"
    }`,
    ignore: !can,
    async fn() {
      await using machine = await Machine.make();
      assert.ok(await mountGroups(machine.dir));
      try {
        const processes = systemProcesses({ env: ENV });
        const daemon =
          "cd /; (setsid env -i /bin/sh -c 'echo $$ >$0; exec sleep 300' \"$0\" </dev/null >/dev/null 2>&1 &) ; exit 0";
        const spec = machine.spec(
          `sh -c '${daemon.replaceAll("'", "'\\''")}' "$PWD/hidden"; exit 3`,
        );
        const ref = await machine.start(spec, processes);
        const pid = await machine.number("hidden");
        assert.deepEqual(await processes.wait(ref), { code: 3, signal: null });
        assert.ok(await machine.processes.alive({ pid, startTime: null }));
        await processes.stop(ref, spec.tag, 100);
        assert.equal(await machine.processes.alive({ pid, startTime: null }), false);
        const groups = [...Deno.readDirSync(machine.dir.join("groups"))].map(({ name }) => name);
        assert.ok(!groups.includes(`sublet.${spec.tag}`));
      } finally {
        await run(["umount", "-l", machine.dir.join("groups")]);
      }
    },
  });
}

Deno.test("where the control group of a process is, by its mounts", () => {
  const mount = (root: string, point: string) =>
    `30 23 0:26 ${root} ${point} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n`;
  const other = "29 23 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
  const cases: [string, string, string | null][] = [
    [
      other + mount("/", "/sys/fs/cgroup"),
      "4:cpu:/\n0::/user.slice/a.scope\n",
      "/sys/fs/cgroup/user.slice/a.scope",
    ],
    [mount("/", "/sys/fs/cgroup"), "0::/\n", "/sys/fs/cgroup"],
    [mount("/docker/x", "/sys/fs/cgroup"), "0::/docker/x/y\n", "/sys/fs/cgroup/y"],
    [mount("/docker/x", "/sys/fs/cgroup"), "0::/docker/x\n", "/sys/fs/cgroup"],
    [mount("/docker/x", "/sys/fs/cgroup"), "0::/docker/xy\n", null],
    [mount("/", "/sys/fs/cgroup"), "0::/../x\n", null],
    [other, "0::/\n", null],
    [mount("/", "/sys/fs/cgroup"), "4:cpu:/\n", null],
  ];
  for (const [mounts, cgroup, found] of cases) assert.equal(groupDirectory(mounts, cgroup), found);
});

Deno.test("what stops all jobs spares those that a later worker takes over, unless it is told to end all", async () => {
  await using machine = await Machine.make();
  const guarded = new GuardedProcesses(machine.processes, machine.dir.path);
  const agent = machine.spec("sleep 300");
  const evaluation = machine.spec("sleep 300");
  const { outlives: _, ...plain } = evaluation;
  const [kept, stopped] = [
    await machine.start(agent, guarded),
    await machine.start(plain, guarded),
  ];
  await guarded.stopAll(false);
  assert.equal(await machine.processes.alive(kept), true);
  assert.equal(await machine.processes.alive(stopped), false);
  await guarded.stopAll(true);
  assert.equal(await machine.processes.alive(kept), false);
});

Deno.test("an exit code and a PATH outside of the home are refused", async () => {
  await using machine = await Machine.make();
  const home = machine.dir.join("home");
  await Deno.mkdir(home);
  const guarded = new GuardedProcesses(machine.processes, home);
  const inside = { cwd: home, stdout: `${home}/o`, stderr: `${home}/e` };
  const outside = machine.spec("true", 60, inside);
  await assert.rejects(guarded.start(outside), { code: "unsafe_path" });
  const { outlives: _, ...plain } = outside;
  await assert.rejects(guarded.start({ ...plain, pathFirst: machine.dir.path }), {
    code: "unsafe_path",
  });
  await Deno.writeTextFile(`${home}/exit`, "");
  const there = { ...plain, outlives: { exit: `${home}/exit`, seconds: 1 } };
  await assert.rejects(guarded.start(there), { code: "conflict" });
});

/** A person's home with sessions in it. */
async function sessions(dir: TempDir) {
  await Deno.mkdir(dir.join("user/.claude/projects/-w"), { recursive: true });
  await Deno.writeTextFile(dir.join("user/.claude/projects/-w/abc.jsonl"), "one\n");
  const files = new SystemSessionFiles({ HOME: dir.join("user") });
  const pattern = (more: Partial<SessionPattern> = {}): SessionPattern => ({
    file: "{env:CLAUDE_CONFIG_DIR:~/.claude}/projects/{cwd}/{session_id}.jsonl",
    folder: "-w",
    sessionId: "abc",
    env: {},
    ...more,
  });
  return { files, pattern };
}

Deno.test("a session file is found by its pattern, with its folder or any, and read from any byte", async () => {
  await using dir = await TempDir.make();
  const { files, pattern } = await sessions(dir);
  const found = await files.find(pattern());
  assert.equal(found?.path, dir.join("user/.claude/projects/-w/abc.jsonl"));
  assert.equal(found?.name, "-w/abc.jsonl");
  assert.equal((await files.find(pattern({ folder: "-elsewhere" })))?.name, "-w/abc.jsonl");
  assert.equal(
    (await files.find(pattern({ file: "~/.claude/projects/*/{session_id}.jsonl" })))?.name,
    "-w/abc.jsonl",
  );
  assert.equal(await files.find(pattern({ sessionId: "ab" })), null);
  assert.equal(await files.find(pattern({ sessionId: "*" })), null);
  assert.equal(await files.find(pattern({ sessionId: "../-w/abc" })), null);
  assert.equal(
    await files.find(pattern({ env: { CLAUDE_CONFIG_DIR: dir.join("nowhere") } })),
    null,
  );
  assert.equal(
    (await files.find(pattern({ env: { CLAUDE_CONFIG_DIR: "" } })))?.name,
    "-w/abc.jsonl",
  );
  const piece = await files.read(found?.path ?? "", 2, 100);
  assert.equal(new TextDecoder().decode(piece?.bytes), "e\n");
  assert.equal(piece?.size, 4);
  await assert.rejects(files.read("/etc/passwd", 0, 10), { code: "permission_denied" });
});

Deno.test("the newest of several is taken, links are not, and what is gone is gone", async () => {
  await using dir = await TempDir.make();
  const { files, pattern } = await sessions(dir);
  await Deno.mkdir(dir.join("user/.claude/projects/-x"));
  await Deno.writeTextFile(dir.join("user/.claude/projects/-x/abc.jsonl"), "two\n");
  const past = new Date(Date.now() - 60_000);
  await Deno.utime(dir.join("user/.claude/projects/-w/abc.jsonl"), past, past);
  assert.equal((await files.find(pattern({ folder: null })))?.name, "-x/abc.jsonl");
  const path = dir.join("user/.claude/projects/-x/abc.jsonl");
  await Deno.remove(path);
  assert.equal(await files.read(path, 0, 10), null);
  await Deno.symlink("/etc/passwd", path);
  assert.equal(await files.read(path, 0, 10), null);
  assert.equal((await files.find(pattern({ folder: null })))?.name, "-w/abc.jsonl");
});

Deno.test("a session is restored once, beneath the fixed start of its pattern alone", async () => {
  await using dir = await TempDir.make();
  const { files, pattern } = await sessions(dir);
  const source = dir.join("home/source.jsonl");
  await Deno.mkdir(dir.join("home"));
  await Deno.writeTextFile(source, "restored\n");
  await files.restore(pattern(), "-new/abc.jsonl", source);
  const target = dir.join("user/.claude/projects/-new/abc.jsonl");
  assert.equal(await Deno.readTextFile(target), "restored\n");
  await Deno.writeTextFile(target, "mine\n");
  await files.restore(pattern(), "-new/abc.jsonl", source);
  assert.equal(await Deno.readTextFile(target), "mine\n");
  // As another machine went on with it.
  await Deno.writeTextFile(target, "resto");
  await files.restore(pattern(), "-new/abc.jsonl", source);
  assert.equal(await Deno.readTextFile(target), "restored\n");
  await Deno.writeTextFile(target, "restored\nand more\n");
  await files.restore(pattern(), "-new/abc.jsonl", source);
  assert.equal(await Deno.readTextFile(target), "restored\nand more\n");
  await assert.rejects(files.restore(pattern(), "../../x.jsonl", source), { code: "unsafe_path" });
  const guarded = new GuardedSessions(files, dir.join("home"));
  await assert.rejects(guarded.restore(pattern(), "-n/a.jsonl", "/etc/passwd"), {
    code: "unsafe_path",
  });
  await assert.rejects(guarded.restore(pattern(), "-n/authorized_keys", source), {
    code: "permission_denied",
  });
  await assert.rejects(guarded.find(pattern({ file: "{home}/.ssh/id_ed25519" })), {
    code: "permission_denied",
  });
  await assert.rejects(files.find(pattern({ file: "{home}/../x/*.jsonl" })), { code: "failed" });
  await assert.rejects(files.find(pattern({ file: "*.jsonl" })), { code: "failed" });
});
