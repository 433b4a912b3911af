/** @module Agents that a worker left, by its own will or because it was killed, and that its next process takes over. */

import assert from "node:assert/strict";
import { SubletError } from "../../lib/home/mod.ts";
import type { AgentRunner, JobHandle, JobRunner, Outcome } from "../../lib/job/mod.ts";
import { run, until } from "../kit/mod.ts";
import { AgentBench, AgentControl, exists, finishedOf, standing } from "./agent_kit.ts";

const HELD = { handle: { runtime: "subprocess", data: {} } as JobHandle, startedAt: null };

/** An agent that runs, and what lets it end. */
class Left {
  private constructor(
    readonly bench: AgentBench,
    readonly job: Record<string, unknown>,
    readonly control: AgentControl,
    readonly running: Promise<Outcome>,
  ) {}

  static async make(
    bench: AgentBench,
    { harness = "claude", after = "true", fields = {} as Record<string, unknown> } = {},
    control = new AgentControl(),
  ): Promise<Left> {
    const [gate, up] = [bench.dir.join("gate"), bench.dir.join("up")];
    const job = await bench.job(
      `echo begun >said; echo begun; : >${up}; while [ ! -e ${gate} ]; do sleep 0.02; done; rm ${gate}; ${after}`,
      fields,
      harness,
    );
    const running = bench.runner.run(job, control);
    await until("it is up", () => exists(up));
    await until("it is known to run", () => control.handles.length > 0);
    return new Left(bench, job, control, running);
  }

  /** The worker's process is gone: nothing of it is waited for, and its runner does nothing more. */
  async leave(): Promise<void> {
    this.control.go();
    assert.deepEqual(await this.running, { left: true });
  }

  open(): Promise<void> {
    return Deno.writeTextFile(this.bench.dir.join("gate"), "");
  }

  async ended(): Promise<void> {
    const state = JSON.parse(await Deno.readTextFile(`${this.bench.root}/.run/state.json`));
    await until(
      "its process has ended",
      async () => !await this.bench.site.processes.alive(state.process),
    );
  }

  async recover(runner: AgentRunner, control = new AgentControl()): Promise<Outcome> {
    return await runner.recover(this.job, HELD, control);
  }
}

Deno.test("an agent that a worker left is taken over, with its session from where it was", async (test) => {
  for (const harness of ["claude", "codex", "pi"]) {
    await test.step(harness, async () => {
      await using bench = await AgentBench.make();
      const left = await Left.make(bench, { harness, after: "echo more >>said" });
      await until(
        "some is sent",
        () => left.control.parts.some(({ stream }) => stream === "session"),
      );
      await left.leave();
      const next: JobRunner & AgentRunner = bench.restarted();
      await next.stopLeft?.();
      await next.removeLeft((lease) => lease === 7);
      const control = new AgentControl();
      const running = left.recover(next, control);
      await until("it is taken over", () => control.sessions.length > 0);
      assert.equal(await next.prompt(7, { id: 41, text: "$ echo prompted >>said" }), null);
      await left.open();
      const report = finishedOf(await running);
      assert.equal(report.process.error, null);
      assert.deepEqual([report.read, report.unread], [[41], []]);
      assert.equal(report.usage?.turns, 2);
      assert.equal(await (await bench.take(report.work)).show("said"), "begun\nmore\nprompted\n");
      // Nothing that the server has was sent again.
      const before = left.control.parts.filter(({ stream }) => stream === "session");
      const after = control.parts.filter(({ stream }) => stream === "session");
      const had = Math.max(...before.map(({ offset, bytes }) => offset + bytes));
      assert.equal(after[0]?.offset, had);
      left.control.parts.push(...control.parts);
      assert.equal(
        await bench.stream(left.control, "session"),
        await bench.read(report.session?.file),
      );
      assert.equal(
        await bench.stream(left.control, "agent_session.stdout"),
        await bench.read(report.files["agent_session.stdout"]),
      );
    });
  }
});

Deno.test("an agent that ended meanwhile is reported from its checkout", async (test) => {
  const cases: [string, string, number | null, RegExp | null][] = [
    ["well", "true", 0, null],
    ["badly", "echo why >&2; exit 3", 3, /^exit 3: why/],
    ["by a signal", "kill -KILL $$", -9, /killed by signal 9/],
  ];
  for (const [how, after, code, error] of cases) {
    await test.step(how, async () => {
      await using bench = await AgentBench.make();
      const left = await Left.make(bench, { harness: "command", after });
      await left.leave();
      await left.open();
      await left.ended();
      const report = finishedOf(await left.recover(bench.restarted()));
      assert.equal(report.process.exit_code, code);
      if (error === null) assert.equal(report.process.error, null);
      else assert.match(report.process.error ?? "", error);
      assert.equal(await (await bench.take(report.work)).show("said"), "begun\n");
    });
  }
});

Deno.test("an agent whose machine went down is reported from its checkout, with what is not known", async () => {
  await using bench = await AgentBench.make();
  const left = await Left.make(bench);
  await left.leave();
  const state = JSON.parse(await Deno.readTextFile(`${bench.root}/.run/state.json`));
  Deno.kill(-state.process.pid, "SIGKILL");
  await left.ended();
  const report = finishedOf(await left.recover(bench.restarted()));
  assert.equal(report.process.exit_code, null);
  assert.match(report.process.error ?? "", /nobody watched it/);
  assert.equal(await (await bench.take(report.work)).show("said"), "begun\n");
});

Deno.test("a prompt that waited while no worker watched is the next turn of an agent that ended meanwhile", async () => {
  await using bench = await AgentBench.make();
  const left = await Left.make(bench);
  assert.equal(await bench.runner.prompt(7, { id: 41, text: "$ echo prompted >>said" }), null);
  await left.leave();
  await left.open();
  await left.ended();
  const report = finishedOf(await left.recover(bench.restarted()));
  assert.deepEqual([report.read, report.unread], [[41], []]);
  assert.equal(await (await bench.take(report.work)).show("said"), "begun\nprompted\n");
});

Deno.test("time goes on while nobody watches", async () => {
  await using bench = await AgentBench.make();
  const left = await Left.make(bench, { fields: { timeout: 2 } });
  await left.leave();
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const began = performance.now();
  const report = finishedOf(await left.recover(bench.restarted()));
  assert.equal(report.process.status, "timed_out");
  assert.ok(performance.now() - began < 10_000);
  assert.deepEqual(await standing(bench), []);
});

Deno.test("a worker that starts again stops none of its agents, and those of lost leases come back as evidence", async () => {
  await using bench = await AgentBench.make();
  const left = await Left.make(bench);
  await left.leave();
  const next: JobRunner & AgentRunner = bench.restarted();
  await next.stopLeft?.();
  assert.notDeepEqual(await standing(bench), []);
  const found = await Array.fromAsync(next.salvage(() => false, new AbortController().signal));
  assert.deepEqual(await standing(bench), []);
  assert.equal(found.length, 1);
  assert.equal(found[0]?.lease, 7);
  const report = finishedOf({ report: found[0]?.report ?? { kind: "" } });
  assert.match(report.process.error ?? "", /its lease was lost/);
  assert.equal(await (await bench.take(report.work)).show("said"), "begun\n");
  await next.cleanup(found[0]?.job, 7);
  assert.ok(!await exists(bench.root));
});

Deno.test("an agent that had not started is lost, and what did start is stopped", async () => {
  await using bench = await AgentBench.make();
  const left = await Left.make(bench);
  await left.leave();
  // The worker died between the start and writing that down.
  await Deno.remove(`${bench.root}/.run/state.json`);
  const outcome = await left.recover(bench.restarted());
  assert.ok("lost" in outcome);
  assert.deepEqual(await standing(bench), []);
});

Deno.test("an agent that we were about to report is reported by the next process, as it was ended", async () => {
  await using bench = await AgentBench.make();
  const left = await Left.make(bench);
  const state = JSON.parse(await Deno.readTextFile(`${bench.root}/.run/state.json`));
  await left.leave();
  const path = `${bench.root}/.run/state.json`;
  const ended = { ...state, ended: "timeout", endedAt: state.startedAt + 5_000 };
  await Deno.writeTextFile(path, JSON.stringify(ended));
  const report = finishedOf(await left.recover(bench.restarted()));
  assert.equal(report.process.status, "timed_out");
  assert.equal(report.process.seconds, 5);
  assert.deepEqual(await standing(bench), []);
});

Deno.test("a store that is away keeps the work where it is until it is back, or another process comes", async () => {
  await using bench = await AgentBench.make();
  let away = false;
  const down = () => new SubletError("unavailable", "the store is away");
  const cas = new Proxy(bench.cas, {
    get(target, name) {
      const found = Reflect.get(target, name);
      if (typeof found !== "function") return found;
      return (...args: unknown[]) => away ? Promise.reject(down()) : found.apply(target, args);
    },
  });
  const clock = { ...bench.site.clock };
  const runner = bench.restarted({ cas, clock });
  const control = new AgentControl();
  const job = await bench.job("echo kept >said");
  control.started = () => {
    away = true;
    return Promise.resolve(true);
  };
  const running = runner.run(job, control);
  await until(
    "it is tried",
    () => bench.events.some(({ event }) => event === "agent.not_finished"),
  );
  // Its time to go: 30 s pass at once.
  const begun = performance.now();
  clock.monotonic = () => performance.now() + (performance.now() > begun + 50 ? 60_000 : 0);
  control.end();
  assert.deepEqual(await running, { left: true });
  away = false;
  const report = finishedOf(await bench.restarted().recover(job, HELD, new AgentControl()));
  assert.equal(report.process.exit_code, 0);
  assert.equal(await (await bench.take(report.work)).show("said"), "kept\n");
});

Deno.test("an agent is ended when its time is over and no worker ever comes back", async () => {
  await using bench = await AgentBench.make();
  const { processes } = bench.site;
  await Deno.mkdir(bench.root, { recursive: true });
  const process = await processes.start({
    argv: ["/bin/sleep", "300"],
    cwd: bench.root,
    env: {},
    stdout: `${bench.root}/out`,
    stderr: `${bench.root}/err`,
    tag: "0123456789abcdef",
    outlives: { exit: `${bench.root}/exit`, seconds: 1 },
  });
  const { signal } = await processes.wait(process);
  assert.equal(signal, "SIGKILL");
  assert.ok(!await exists(`${bench.root}/exit`));
  assert.deepEqual(await standing(bench), []);
});

Deno.test("work that cannot be brought back is kept where it is, and the report says where", async () => {
  await using bench = await AgentBench.make();
  const cas = new Proxy(bench.cas, {
    get(target, name) {
      const found = Reflect.get(target, name);
      if (name === "putStream") {
        return () => Promise.reject(new SubletError("integrity", "it rots"));
      }
      return typeof found === "function" ? found.bind(target) : found;
    },
  });
  const clock = {
    ...bench.site.clock,
    sleep: (ms: number) => bench.site.clock.sleep(Math.min(ms, 20)),
  };
  const runner = bench.restarted({ cas, clock });
  const job = await bench.job("echo kept >said", {}, "command");
  const report = finishedOf(await runner.run(job, new AgentControl()));
  assert.match(report.process.error ?? "", /kept at .*lease-7 on its worker: it rots/);
  await runner.cleanup(job, 7);
  assert.equal(await Deno.readTextFile(`${bench.root}/worktree/said`), "kept\n");
  await bench.restarted().removeLeft(() => false);
  assert.ok(await exists(bench.root));
});

Deno.test("a worker whose own code fails while an agent runs stops it, and keeps what it did", async () => {
  await using bench = await AgentBench.make();
  const processes = {
    ...proxied(bench.site.processes),
    wait: () => Promise.reject(new Error("a bug")),
  };
  const job = await bench.job("echo kept >said; sleep 300", {}, "command");
  const report = finishedOf(await bench.restarted({ processes }).run(job, new AgentControl()));
  assert.match(report.process.error ?? "", /kept at .* a bug/);
  assert.deepEqual(await standing(bench), []);
  assert.ok(await exists(`${bench.root}/worktree`));
});

function proxied(processes: AgentBench["site"]["processes"]) {
  return {
    start: processes.start.bind(processes),
    alive: processes.alive.bind(processes),
    stop: processes.stop.bind(processes),
    exec: processes.exec.bind(processes),
  };
}

/** Whether this test may mount a file system of its own. */
const mayMount = Deno.build.os === "linux" && Deno.uid() === 0;

Deno.test({
  name: `an agent that filled its disk is reported, with its work, once there is room${
    mayMount ? "" : " (SKIPPED: it takes root to mount a small disk)"
  }`,
  ignore: !mayMount,
  async fn() {
    await using bench = await AgentBench.make();
    const home = bench.site.home;
    await run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", home]);
    try {
      const job = await bench.job("echo work >said; cat /dev/zero >ignored; true", {}, "command");
      const running = bench.runner.run(job, new AgentControl());
      await until(
        "it cannot be finished",
        () => bench.events.some(({ event }) => event === "agent.not_finished"),
        60,
      );
      await Deno.remove(`${bench.root}/worktree/ignored`);
      const report = finishedOf(await running);
      assert.equal(report.process.exit_code, 0);
      assert.equal(await (await bench.take(report.work)).show("said"), "work\n");
    } finally {
      await run(["umount", "-l", home]);
    }
  },
});
