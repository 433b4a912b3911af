/** @module Real processes: how jobs start, what they see, and that nothing of them is left. */

import assert from "node:assert/strict";
import { isError, type Processes, type ProcessRef, type StartSpec } from "../../lib/home/mod.ts";
import { parsePs, parseStat, tagged } from "../../lib/lease/machine/process_table.ts";
import { systemProcesses } from "../../lib/lease/machine/processes.ts";
import { TempDir, until } from "../kit/mod.ts";

/** Unlike ours: what a worker's environment may hold. */
const ENV = {
  PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin",
  HOME: "/home/somebody",
  LC_TIME: "C",
  CUDA_VISIBLE_DEVICES: "1",
  SUBLET_HTTPS_TOKEN: "slt_secret",
  SUBLET_HOME: "/home/somebody/.sublet",
  PILOOP_HTTPS_TOKEN: "plt_secret",
  AWS_SECRET_ACCESS_KEY: "secret",
  https_proxy: "http://user:secret@proxy:3128",
  http_proxy: "http://proxy:3128",
};

/** Starts scripts in a directory of its own, and stops everything that they left. */
class Jobs implements AsyncDisposable {
  readonly processes: Processes;
  readonly #started: { ref: ProcessRef; tag: string }[] = [];
  #next = 1;

  private constructor(readonly dir: TempDir, processes?: Processes) {
    this.processes = processes ?? systemProcesses({ env: ENV });
  }

  static async make(): Promise<Jobs> {
    return new Jobs(await TempDir.make());
  }

  spec(script: string, more: Partial<StartSpec> = {}): StartSpec {
    const number = this.#next++;
    return {
      argv: ["sh", "-c", script],
      cwd: this.dir.path,
      env: {},
      stdout: this.dir.join(`${number}.out`),
      stderr: this.dir.join(`${number}.err`),
      tag: crypto.randomUUID(),
      ...more,
    };
  }

  async start(spec: StartSpec): Promise<ProcessRef> {
    const ref = await this.processes.start(spec);
    this.#started.push({ ref, tag: spec.tag });
    return ref;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { ref, tag } of this.#started) await this.processes.stop(ref, tag, 0);
    await this.dir[Symbol.asyncDispose]();
  }
}

async function text(path: string): Promise<string> {
  return await Deno.readTextFile(path).catch(() => "");
}

Deno.test("start puts stdout and stderr into new files, and wait tells the exit code", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec("echo out; echo err >&2; exit 7");
  const ref = await jobs.start(spec);
  assert.deepEqual(await jobs.processes.wait(ref), { code: 7, signal: null });
  assert.equal(await text(spec.stdout), "out\n");
  assert.equal(await text(spec.stderr), "err\n");
});

Deno.test("wait tells the signal of a process that was killed", async () => {
  await using jobs = await Jobs.make();
  const ref = await jobs.start(jobs.spec("kill -9 $$"));
  assert.deepEqual(await jobs.processes.wait(ref), { code: null, signal: "SIGKILL" });
});

Deno.test("a process leads a session and a group of its own, and reads nothing", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec("cat; exec cat /proc/self/stat", {
    argv: ["sh", "-c", "cat; cat /proc/$$/stat"],
  });
  const ref = await jobs.start(spec);
  await jobs.processes.wait(ref);
  const [, , group, session] = (await text(spec.stdout)).split(") ")[1]?.split(" ") ?? [];
  assert.deepEqual([group, session], [String(ref.pid), String(ref.pid)]);
});

Deno.test("a process gets the allow-list, its own variables and its tag, and no credential", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec("", { argv: ["env", "-0"], env: { SUBLET_DEADLINE: "12", "LANG": "de" } });
  await jobs.processes.wait(await jobs.start(spec));
  const env = Object.fromEntries(
    (await text(spec.stdout)).split("\0").filter((line) => line !== "").map((line) => {
      const at = line.indexOf("=");
      return [line.slice(0, at), line.slice(at + 1)];
    }),
  );
  // The shell in between sets these two itself.
  delete env["PWD"];
  delete env["OLDPWD"];
  assert.deepEqual(env, {
    PATH: ENV.PATH,
    HOME: "/home/somebody",
    LC_TIME: "C",
    CUDA_VISIBLE_DEVICES: "1",
    http_proxy: "http://proxy:3128",
    LANG: "de",
    SUBLET_DEADLINE: "12",
    SUBLET_PROCESS_TAG: spec.tag,
  });
});

Deno.test("a machine without a locale gives its jobs C.UTF-8", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec('echo "$LANG"');
  await jobs.processes.wait(await jobs.start(spec));
  assert.equal(await text(spec.stdout), "C.UTF-8\n");
});

Deno.test("start refuses a credential, a bad name, a NUL and a tag of our own in the environment", async () => {
  await using jobs = await Jobs.make();
  for (
    const env of [
      { SUBLET_HTTPS_TOKEN: "x" },
      { "a b": "x" },
      { A: "x\0y" },
      { SUBLET_PROCESS_TAG: "x" },
    ]
  ) {
    await assert.rejects(
      jobs.processes.start(jobs.spec("true", { env: env as unknown as Record<string, string> })),
      (error) => isError(error, "invalid_request"),
    );
  }
});

Deno.test("start says which program, directory or permission is missing, and makes no file", async () => {
  await using jobs = await Jobs.make();
  await Deno.writeTextFile(jobs.dir.join("plain"), "#!/bin/sh\n", { mode: 0o600 });
  const cases: [Partial<StartSpec>, RegExp][] = [
    [{ argv: ["no-such-program"] }, /no program "no-such-program" on PATH/],
    [{ argv: ["./gone"] }, /no program ".\/gone"/],
    [{ argv: ["./plain"] }, /not executable/],
    [{ cwd: jobs.dir.join("nowhere") }, /no directory/],
    [{ argv: [] }, /needs a program/],
    [{ argv: ["sh", "a\0b"] }, /no NUL/],
    [{ stdout: jobs.dir.join("plain") }, /could not start.*(exist|create)/s],
    [{ stderr: "/no/such/directory/x" }, /could not start/],
  ];
  for (const [more, message] of cases) {
    const spec = jobs.spec("true", more);
    await assert.rejects(jobs.processes.start(spec), message);
  }
  assert.equal(await text(jobs.dir.join("plain")), "#!/bin/sh\n");
});

Deno.test("a child that keeps the output open after its parent's end keeps no waiter", async () => {
  await using jobs = await Jobs.make();
  const ref = await jobs.start(jobs.spec("sleep 1000 & exit 0"));
  assert.deepEqual(await jobs.processes.wait(ref), { code: 0, signal: null });
});

Deno.test("stop after a clean exit ends what went on in the background", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec("sleep 1000 & echo $! >child; exit 0");
  const ref = await jobs.start(spec);
  await jobs.processes.wait(ref);
  assert.equal((await tagged(spec.tag)).length, 1);
  await jobs.processes.stop(ref, spec.tag, 100);
  assert.deepEqual(await tagged(spec.tag), []);
  await jobs.processes.stop(ref, spec.tag, 100);
});

Deno.test("stop lets a process end by itself within the grace", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.02; done");
  const ref = await jobs.start(spec);
  await until("it is up", async () => await text(spec.stdout) !== "");
  await jobs.processes.stop(ref, spec.tag, 20_000);
  assert.deepEqual(await jobs.processes.wait(ref), { code: 3, signal: null });
  assert.equal(await text(spec.stdout), "up\nbye\n");
});

Deno.test("stop kills a tree that ignores TERM, with children in sessions of their own", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec(
    `trap '' TERM HUP INT
     setsid sh -c 'trap "" TERM; setsid sleep 1001 & sleep 1002' &
     (sleep 1003 &) &
     echo up; while :; do sleep 1004; done`,
  );
  const ref = await jobs.start(spec);
  await until("all of it runs", async () => (await tagged(spec.tag)).length >= 6);
  await jobs.processes.stop(ref, spec.tag, 50);
  assert.deepEqual(await tagged(spec.tag), []);
  assert.deepEqual(await jobs.processes.wait(ref), { code: null, signal: "SIGKILL" });
  assert.equal(await jobs.processes.alive(ref), false);
});

Deno.test("stop ends a job that starts itself anew in session after session", async () => {
  await using jobs = await Jobs.make();
  await Deno.writeTextFile(
    jobs.dir.join("hop.sh"),
    `trap '' TERM HUP\nsleep 0.05\nsetsid sh "$0" &\nsetsid sh "$0" &\nsleep 0.05\n`,
  );
  // Bounded by itself, should the stop fail: no hop lives on without the file.
  const spec = jobs.spec("", { argv: ["sh", jobs.dir.join("hop.sh")] });
  const ref = await jobs.start(spec);
  await until("it hops", async () => (await tagged(spec.tag)).length >= 4);
  await jobs.processes.stop(ref, spec.tag, 0);
  assert.deepEqual(await tagged(spec.tag), []);
});

Deno.test("stop by group ends members that dropped the tag, once their leader has gone", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec("env -i /bin/sleep 1000 & echo $! >child; exit 0");
  const ref = await jobs.start(spec);
  await jobs.processes.wait(ref);
  const child = Number(await text(jobs.dir.join("child")));
  assert.equal(await jobs.processes.alive({ pid: child, startTime: null }), true);
  await jobs.processes.stop(ref, spec.tag, 0);
  assert.equal(await jobs.processes.alive({ pid: child, startTime: null }), false);
});

Deno.test("another process may wait for, and stop, what one has started", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec("setsid sleep 1000 & sleep 1000");
  const ref = await jobs.start(spec);
  const other = systemProcesses({ env: ENV });
  assert.equal(await other.alive(ref), true);
  const waited = other.wait(ref);
  await other.stop(ref, spec.tag, 0);
  assert.deepEqual(await waited, { code: null, signal: null });
  assert.deepEqual(await tagged(spec.tag), []);
});

Deno.test("a pid that was given to another process is neither alive nor stopped", async () => {
  await using jobs = await Jobs.make();
  const spec = jobs.spec("sleep 1000");
  const ref = await jobs.start(spec);
  const other = systemProcesses({ env: ENV });
  assert.ok(ref.startTime !== null && ref.startTime > 1e9);
  const reused = { pid: ref.pid, startTime: ref.startTime - 60 };
  assert.equal(await other.alive(reused), false);
  await other.stop(reused, "another-tag", 0);
  await other.stop({ pid: ref.pid, startTime: null }, null, 0);
  await jobs.processes.stop(reused, null, 0);
  assert.equal(await jobs.processes.alive(ref), true);
});

Deno.test("the start time is the kernel's, and close to now", async () => {
  await using jobs = await Jobs.make();
  const before = Date.now() / 1000;
  const ref = await jobs.start(jobs.spec("sleep 1000"));
  assert.ok(ref.startTime !== null && Math.abs(ref.startTime - before) < 5, String(ref.startTime));
});

Deno.test("exec hands over bytes and files, and reads both outputs", async () => {
  await using jobs = await Jobs.make();
  const cwd = jobs.dir.path;
  const { processes } = jobs;
  await Deno.writeTextFile(jobs.dir.join("in"), "from a file");
  const utf8 = new TextDecoder();
  const big = new Uint8Array(3_000_000).fill(65);
  const echoed = await processes.exec({ argv: ["cat"], cwd, stdin: big });
  assert.equal(echoed.stdout.length, big.length);
  const read = await processes.exec({ argv: ["cat"], cwd, stdin: { path: jobs.dir.join("in") } });
  assert.equal(utf8.decode(read.stdout), "from a file");
  const out = jobs.dir.join("out");
  const wrote = await processes.exec({
    argv: ["sh", "-c", "cat; echo no >&2; exit 4"],
    cwd,
    stdin: new TextEncoder().encode("given"),
    stdoutPath: out,
  });
  assert.deepEqual([wrote.code, wrote.stdout.length, wrote.stderr], [4, 0, "no\n"]);
  assert.equal(await text(out), "given");
});

Deno.test("exec ends a helper that takes too long, with all that it started", async () => {
  await using jobs = await Jobs.make();
  const pids = jobs.dir.join("pids");
  await assert.rejects(
    jobs.processes.exec({
      argv: ["sh", "-c", `sleep 1000 & echo $! $$ >${pids}; wait`],
      cwd: jobs.dir.path,
      timeoutMs: 300,
    }),
    /took longer than 0.3 s/,
  );
  for (const pid of (await text(pids)).trim().split(" ").map(Number)) {
    await until(
      "it is gone",
      async () => !await jobs.processes.alive({ pid, startTime: null }),
    );
  }
});

Deno.test("exec does not wait for what a helper left with its output open", async () => {
  await using jobs = await Jobs.make();
  const { code, stdout } = await jobs.processes.exec({
    argv: ["sh", "-c", "sleep 30 & echo $!"],
    cwd: jobs.dir.path,
  });
  assert.equal(code, 0);
  Deno.kill(Number(new TextDecoder().decode(stdout)), "SIGKILL");
});

Deno.test("exec keeps the end of a long stderr, and says when a program is missing", async () => {
  await using jobs = await Jobs.make();
  const { stderr } = await jobs.processes.exec({
    argv: ["sh", "-c", "yes | head -c 200000 >&2; echo end >&2"],
    cwd: jobs.dir.path,
  });
  assert.equal(stderr.length, 65_536);
  assert.match(stderr, /end\n$/);
  await assert.rejects(
    jobs.processes.exec({ argv: ["no-such-program"], cwd: jobs.dir.path }),
    (error) => isError(error, "failed"),
  );
});

Deno.test("a stat line is read from its last parenthesis, whatever the process calls itself", () => {
  const rest = "0 " + "7 ".repeat(16) + "250 1 1";
  const found = parseStat(`42 (a) Z 1 (b\nc) S 1 ${41} ${rest.slice(2)}`, 1000);
  assert.deepEqual(found?.pid, 42);
  assert.deepEqual([found?.group, found?.zombie], [41, false]);
  assert.equal(parseStat("", 1000), null);
});

Deno.test("a line of ps is read where there is no /proc", () => {
  assert.deepEqual(parsePs("  312   1   300 Ss   Mon Jan  5 09:03:11 2026"), {
    pid: 312,
    parent: 1,
    group: 300,
    zombie: false,
    startTime: Date.parse("Mon Jan  5 09:03:11 2026") / 1000,
  });
  assert.equal(parsePs(" 1 0 1 Z+ Mon Jan  5 09:03:11 2026")?.zombie, true);
  assert.equal(parsePs("garbage"), null);
});
