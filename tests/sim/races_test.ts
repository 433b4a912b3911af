/** @module The races between workers and server, each as a scene. Numbers are those of the list in README.md. */

import assert from "node:assert/strict";
import { Scene } from "./scene.ts";

Deno.test("1: a heartbeat covers a lease whose job is still starting", async () => {
  await using scene = await Scene.of(["ada"]);
  scene.sim.blobs.cut.set("ada", "failing");
  const key = scene.submit();
  await scene.run(400);
  assert.deepEqual(scene.course(key), ["ada acquired"]);
  scene.sim.blobs.cut.delete("ada");
  await scene.ends(key, "reported", 60);
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("2: a lease counts from when the answered heartbeat was sent, however slow its answer", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  const key = await scene.running("ada", { seconds: 3_000 });
  // What is answered now takes up to forty seconds.
  scene.sim.network.weather.slow = 1;
  await scene.run(200);
  scene.sim.network.weather.slow = 0;
  scene.cut("ada");
  await scene.until("bob takes it", 320, () => scene.worker("bob").running.length > 0);
  assert.equal(scene.course(key)[0], "ada expired");
});

Deno.test("3 and 4: a worker that is cut off stops two heartbeats before its job runs elsewhere", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  await scene.running("ada", { seconds: 3_000 });
  scene.cut("ada");
  const stopped = await scene.until(
    "ada stops",
    300,
    () => scene.worker("ada").running.length === 0,
  );
  const started = await scene.until("bob starts", 60, () => scene.worker("bob").running.length > 0);
  assert(stopped > 265 && stopped <= 286, `stopped after ${stopped} s`);
  assert(started >= 10, `bob started ${started} s later`);
});

Deno.test("5 and 6: a heartbeat and an expiry of one lease never both apply, whichever comes first", async () => {
  const came = new Set<string>();
  for (let ms = -60; ms <= 180; ms += 10) {
    await using scene = await Scene.of(["ada"], {}, {
      timing: { renew: 10, grace: 50, toleration: 300 },
    });
    // Not even its own silence stops the job: the race is the server's alone to decide.
    const key = await scene.running("ada", { seconds: 9_000 });
    const renewed = scene.sim.world.now;
    scene.cut("ada");
    const lease = scene.lease(key);
    await scene.run(270);
    const answers: string[] = [];
    scene.sim.world.at(renewed + 300_000 - 7_000 + ms * 100, () => {
      void scene.sim.ask("beats", async (engine) => {
        const worker = scene.sim.model.workers.get("ada");
        const found = await engine.heartbeat(
          {
            name: "ada",
            pool: null,
            incarnation: worker?.incarnation ?? null,
            succeeds: null,
            local: false,
          },
          new Map([[lease, null]]),
          { at: "", cpus: 1, load1: 0, memory_available: 0, disk_free: 0 },
        );
        answers.push(String(found.get(lease)));
      });
    });
    await scene.run(60);
    const state = scene.sim.model.leases.get(lease)?.state;
    assert.deepEqual(answers, [state === "running" ? "renewed" : "stale"]);
    came.add(String(state));
  }
  assert.deepEqual([...came].sort(), ["expired", "running"]);
});

Deno.test("7 and C9: an acquire whose answer was lost gets the same lease again", async () => {
  await using scene = await Scene.of(["ada"]);
  scene.sim.network.deaf.add("ada");
  const key = scene.submit();
  await scene.until("it is granted", 60, () => scene.state(key) === "acquired");
  await scene.run(100);
  scene.sim.network.deaf.delete("ada");
  await scene.ends(key, "reported");
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("8: a report whose answer was lost gets its receipt again, and counts once", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 20 });
  scene.sim.network.deaf.add("ada");
  await scene.ends(key, "reported", 60);
  await scene.run(100);
  assert.deepEqual(scene.worker("ada").worker?.leases, [scene.lease(key)]);
  scene.sim.network.deaf.delete("ada");
  await scene.until("ada knows", 60, () => scene.worker("ada").worker?.leases.length === 0);
  assert(scene.logged("ada", "report.accepted"));
});

Deno.test("9: the report of an earlier holder is refused and kept, and its worker drops it", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  const key = await scene.running("ada", { seconds: 30 });
  const first = scene.lease(key);
  scene.cut("ada");
  await scene.ends(key, "reported");
  assert.deepEqual(scene.course(key), ["ada expired", "bob reported"]);
  scene.mend("ada");
  await scene.until("ada drops it", 60, () => scene.worker("ada").worker?.leases.length === 0);
  assert(scene.logged("ada", "report.refused"));
  const kept = await scene.ask<{ lease: number }[]>((engine) =>
    engine.evidence(scene.sim.job(key) ?? 0)
  );
  assert.deepEqual(kept.map(({ lease }) => lease), [first]);
});

Deno.test("10: a report of a job that was settled by other means is stale, and ends its lease", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 20 });
  await scene.ask((_, db) =>
    db.write((tx) => tx.run("INSERT INTO sim_settled (key) VALUES (?)", [key]))
  );
  await scene.ends(key, "cancelled", 60);
  assert.deepEqual(scene.course(key), ["ada cancelled"]);
});

Deno.test("11: a start that is told after the lease was lost stops the job, and nothing is reported", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  scene.cut("bob");
  const key = scene.submit({ seconds: 500 });
  await scene.until("ada has it", 30, () => scene.state(key) === "acquired");
  scene.worker("ada").machine.stand("suspended");
  scene.mend("bob");
  await scene.until("bob has it", 400, () => scene.worker("bob").running.length > 0);
  scene.worker("ada").machine.wake();
  await scene.until("ada let go", 30, () => scene.worker("ada").worker?.leases.length === 0);
  await scene.ends(key, "reported");
  assert.deepEqual(scene.course(key), ["ada expired", "bob reported"]);
});

Deno.test("12: a worker that is stopped before its job began gives it back", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = scene.submit({ seconds: 10 });
  await scene.until("ada has it", 30, () => scene.state(key) === "acquired");
  const runs = scene.sim.runs.count;
  scene.worker("ada").worker?.stop();
  await scene.until("ada ends", 20, () => !scene.worker("ada").alive);
  assert.equal(scene.sim.runs.count, runs);
});

Deno.test("13: a revoke that comes while its job starts keeps it from running", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = scene.submit({ seconds: 10 });
  await scene.until("ada has it", 30, () => scene.state(key) === "acquired");
  void scene.sim.cancel(key);
  await scene.ends(key, "cancelled", 60);
});

Deno.test("17: a prompt that comes as soon as the job runs is delivered", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { kind: "agent", seconds: 30 });
  await scene.ask((engine) => engine.prompt(scene.sim.job(key) ?? 0, 1, "go on"));
  await scene.until("it arrives", 5, () => scene.sim.prompts.has(`ada/${scene.lease(key)}/go on`));
});

Deno.test("18: a prompt that was sent across a restart of the worker finds its agent", async () => {
  await using scene = await Scene.of(["ada"]);
  scene.worker("ada").takesAlong = 0;
  const key = await scene.running("ada", { kind: "agent", seconds: 200 });
  scene.worker("ada").crash("a test");
  await scene.ask((engine) => engine.prompt(scene.sim.job(key) ?? 0, 1, "go on"));
  await scene.run(5);
  scene.worker("ada").start();
  await scene.until("it arrives", 60, () => scene.sim.prompts.size > 0);
  await scene.ends(key, "reported");
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("19: a prompt whose answer was lost is answered again, and not delivered again", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { kind: "agent", seconds: 400 });
  await scene.ask((engine) => engine.prompt(scene.sim.job(key) ?? 0, 1, "go on"));
  await scene.until("it arrives", 5, () => scene.sim.prompts.size > 0);
  scene.cut("ada");
  await scene.run(120);
  scene.mend("ada");
  const answered = () => [...scene.sim.model.mails.values()].every((mail) => mail.answered);
  await scene.until("it is answered", 90, answered);
  assert.deepEqual([...scene.sim.prompts.values()], [1]);
});

Deno.test("21 and C6: prompts arrive after an old database was restored, below every cursor", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { kind: "agent", seconds: 900 });
  const backup = await scene.sim.disk.backup();
  const job = scene.sim.job(key) ?? 0;
  for (const text of ["a", "b", "c"]) await scene.ask((engine) => engine.prompt(job, 1, text));
  await scene.until("all arrive", 20, () => scene.sim.prompts.size === 3);
  await scene.run(5);
  await scene.sim.restore(backup);
  await scene.until("the server is back", 700, () => scene.sim.server.engine !== null);
  await scene.ask((engine) => engine.prompt(job, 2, "after"));
  await scene.until("it arrives", 60, () => scene.sim.prompts.size === 4);
});

Deno.test("22 and C19: what was finished when its worker died is reported by the next process", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 10 });
  scene.cut("ada");
  await scene.run(20);
  scene.worker("ada").powerCut();
  scene.mend("ada");
  scene.worker("ada").start();
  await scene.ends(key, "reported", 60);
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("26: a worker that is stopped while it registers starts nothing", async () => {
  await using scene = await Scene.of([]);
  scene.sim.server.options.machine.stand("frozen");
  const ada = scene.sim.addWorker("ada");
  ada.start();
  await scene.run(3);
  ada.worker?.stop();
  await scene.until("it ends", 10, () => !ada.alive);
  scene.sim.server.options.machine.wake();
  await scene.run(30);
  assert.equal(ada.registrations, 0);
});

Deno.test("29: a fault of the worker's own code loses the job, so that nothing waits for ever", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = scene.submit({ ends: "fault" }, 2);
  await scene.ends(key, "dead", 120);
});

Deno.test("30: a report of blobs that nobody has loses the job", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = scene.submit({ ends: "unstored", seconds: 2 }, 2);
  await scene.ends(key, "dead", 120);
  assert.deepEqual(scene.course(key), ["ada expired", "ada expired"]);
});

Deno.test("32: a drained worker's last report is sent before it leaves", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 20 });
  await scene.ask((engine) => engine.drain("ada"));
  await scene.run(10);
  scene.cut("ada");
  await scene.run(90);
  assert(scene.worker("ada").alive);
  scene.mend("ada");
  await scene.until("it leaves", 60, () => !scene.worker("ada").alive);
  assert.equal(scene.sim.stateOf(key), "reported");
  assert.deepEqual(scene.worker("ada").end, { how: "drained" });
});

Deno.test("33: a worker of one lease takes one of two jobs", async () => {
  await using scene = await Scene.of([], {});
  const keys = [scene.submit({ seconds: 5 }), scene.submit({ seconds: 5 })];
  await scene.run(1);
  const ada = scene.sim.addWorker("ada", { once: true });
  ada.start();
  await scene.until("it leaves", 60, () => !ada.alive);
  assert.deepEqual(ada.end, { how: "once" });
  assert.deepEqual(keys.map((key) => scene.sim.stateOf(key)).sort(), ["open", "reported"]);
});

Deno.test("38: a server that closes answers long-polls at once", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  await scene.run(5);
  const process = scene.sim.world.log.length;
  void scene.sim.server.restart();
  await scene.run(1);
  assert(scene.sim.world.log.slice(process).some((line) => line.includes("it closed")));
});

Deno.test("39 and C5: a worker that is forgotten while it is away registers again by itself", async () => {
  await using scene = await Scene.of(["ada"]);
  scene.cut("ada");
  await scene.run(70);
  await scene.ask((engine) => engine.removeWorker("ada"));
  scene.mend("ada");
  const key = scene.submit();
  await scene.ends(key, "reported", 120);
});

Deno.test("41: registering is tried until database and store are back", async () => {
  await using scene = await Scene.of([]);
  scene.sim.disk.full = true;
  scene.sim.blobs.cut.set("server", "failing");
  const ada = scene.sim.addWorker("ada");
  ada.start();
  await scene.run(60);
  assert.equal(ada.registrations, 0);
  scene.sim.blobs.cut.clear();
  await scene.run(30);
  scene.sim.disk.full = false;
  await scene.until("it is registered", 60, () => ada.registrations === 1);
});

Deno.test("43: an old database that is restored gives out no fencing id again", async () => {
  await using scene = await Scene.of(["ada"]);
  await scene.ends(scene.submit({ seconds: 1 }), "reported");
  const backup = await scene.sim.disk.backup();
  for (let more = 0; more < 3; more++) await scene.ends(scene.submit({ seconds: 1 }), "reported");
  await scene.sim.restore(backup);
  for (let more = 0; more < 3; more++) scene.submit({ seconds: 1 });
  await scene.until("three more ran", 700, () => scene.sim.model.jobs.size === 4);
  await scene.run(60);
});
