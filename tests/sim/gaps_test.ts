/** @module What workers and servers must survive beside the races, each as a scene. Names are those of README.md. */

import assert from "node:assert/strict";
import { Scene } from "./scene.ts";

Deno.test("C1: a finished job is renewed for as long as its report cannot be taken", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  const key = await scene.running("ada", { seconds: 20 });
  await scene.run(15);
  scene.sim.blobs.cut.set("server", "failing");
  await scene.run(900);
  assert.deepEqual(scene.course(key), ["ada running"]);
  scene.sim.blobs.cut.delete("server");
  await scene.ends(key, "reported", 60);
});

Deno.test("C2: a report that hangs stops no heartbeat", async () => {
  await using scene = await Scene.of(["ada"]);
  const long = await scene.running("ada", { seconds: 800 });
  await scene.running("ada", { seconds: 5 });
  scene.sim.blobs.cut.set("server", "hanging");
  await scene.run(600);
  assert.deepEqual(scene.course(long), ["ada running"]);
});

Deno.test("C3: pages of a proxy end no worker and stop no job", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 120 });
  scene.sim.network.weather.noise = 1;
  await scene.run(100);
  scene.sim.network.weather.noise = 0;
  await scene.ends(key, "reported", 120);
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("C7: a second process of a name takes nothing from the first, and takes over when it is gone", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 100 });
  const twin = scene.sim.addWorker("twin", { token: "ada" });
  twin.start();
  await scene.until("it is refused", 30, () => !twin.alive);
  assert.equal(twin.end?.how, "refused");
  await scene.ends(key, "reported", 150);
  scene.worker("ada").powerCut();
  await scene.run(60);
  twin.start();
  await scene.until("it is taken in", 60, () => twin.registrations === 1);
});

Deno.test("C8: an orphan reports what it has before it leaves, and does not spin while it tries", async () => {
  await using scene = await Scene.of(["ada"], { orphanExitSeconds: 60 });
  const key = await scene.running("ada", { seconds: 20 });
  scene.cut("ada");
  await scene.until("it leaves", 200, () => !scene.worker("ada").alive);
  assert.deepEqual(scene.worker("ada").end, { how: "orphaned" });
  scene.mend("ada");
  scene.worker("ada").start();
  await scene.ends(key, "reported", 60);
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("C10: what ran while the server was started again is reported to the next", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 60 });
  await scene.sim.server.restart();
  await scene.ends(key, "reported", 700);
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("C11: a server that is away for long finds its leases as they were", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 400 });
  scene.sim.server.options.machine.stand("suspended");
  await scene.run(200);
  scene.sim.server.options.machine.wake();
  scene.sim.watch.woke(200_000);
  await scene.ends(key, "reported", 400);
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("C12: a job that is lost each time is dead after its attempts, with growing waits between", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = scene.submit({ ends: "lost", seconds: 1 }, 4);
  const took = await scene.ends(key, "dead", 400);
  assert.equal(scene.course(key).length, 4);
  assert(took > 12, `it took ${took} s`);
});

Deno.test("C16: a machine that wakes after a night stops its jobs within a second or so", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  const key = await scene.running("ada", { seconds: 20_000 });
  scene.worker("ada").machine.stand("suspended");
  await scene.until("bob has it", 400, () => scene.worker("bob").running.length > 0);
  await scene.run(7_200);
  scene.worker("ada").machine.wake();
  // A second until it looks, and five until the process is gone.
  await scene.until("ada stops", 6.2, () => scene.worker("ada").running.length === 0);
  assert.deepEqual(scene.course(key), ["ada expired", "bob running"]);
});

Deno.test("C18: a drained worker leaves, and may work again once it is resumed", async () => {
  await using scene = await Scene.of(["ada"]);
  await scene.ask((engine) => engine.drain("ada"));
  await scene.until("it leaves", 30, () => !scene.worker("ada").alive);
  await scene.ask((engine) => engine.resume("ada"));
  scene.worker("ada").start();
  await scene.ends(scene.submit(), "reported", 60);
});

Deno.test("a lease that is recovered counts from its register, on both sides", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  scene.worker("ada").takesAlong = 0;
  const key = await scene.running("ada", { kind: "agent", seconds: 2_000 });
  scene.worker("ada").crash("a test");
  await scene.run(200);
  scene.worker("ada").start();
  await scene.until("it is found again", 60, () => scene.worker("ada").running.length > 0);
  scene.sim.network.mute.add("ada");
  await scene.until("bob has it", 400, () => scene.worker("bob").running.length > 0);
  assert.equal(scene.course(key)[0], "ada expired");
});

Deno.test("a day that a wall clock jumps ends no lease on the server", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 100 });
  scene.sim.server.options.machine.jumpWall(86_400_000);
  await scene.run(30);
  scene.sim.server.options.machine.jumpWall(-2 * 86_400_000);
  await scene.ends(key, "reported", 120);
  assert.deepEqual(scene.course(key), ["ada reported"]);
});

Deno.test("fifty jobs of workers that lose power run once more each", async () => {
  const names = Array.from({ length: 25 }, (_, index) => `w${index}`);
  await using scene = await Scene.of(names);
  const keys = Array.from({ length: 50 }, () => scene.submit({ seconds: 100 }));
  await scene.until("all run", 120, () => keys.every((key) => scene.state(key) === "running"));
  for (const worker of scene.sim.workers) worker.powerCut();
  for (const worker of scene.sim.workers) worker.start();
  await scene.until(
    "all end",
    900,
    () => keys.every((key) => scene.sim.stateOf(key) === "reported"),
  );
  for (const key of keys) assert.equal(scene.course(key).length, 2);
});

Deno.test("a prompt that a restore made unanswered is read again, though answers are lost meanwhile", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { kind: "agent", seconds: 3_000 });
  scene.cut("ada");
  const job = scene.sim.job(key) ?? 0;
  for (const text of ["a", "b"]) await scene.ask((engine) => engine.prompt(job, 1, text));
  const backup = await scene.sim.disk.backup();
  scene.mend("ada");
  const answered = () => [...scene.sim.model.mails.values()].every((mail) => mail.answered);
  await scene.until("both are answered", 120, answered);
  await scene.run(30);
  await scene.sim.restore(backup);
  assert(!answered());
  scene.sim.network.deaf.add("ada");
  await scene.until("the server is back", 700, () => scene.sim.server.engine !== null);
  await scene.run(150);
  scene.sim.network.deaf.delete("ada");
  await scene.until("both are answered again", 120, answered);
});
