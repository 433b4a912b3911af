/** @module The worker inside the server, workers of piloop's, machines that fail and databases of an hour ago, as scenes. */

import assert from "node:assert/strict";
import { Scene } from "./scene.ts";

Deno.test("what was reported since a backup runs again under a larger lease, and is accepted once more", async () => {
  await using scene = await Scene.of(["ada"]);
  const key = await scene.running("ada", { seconds: 30 });
  const first = scene.lease(key);
  const backup = await scene.sim.disk.backup();
  await scene.ends(key, "reported");
  for (let more = 0; more < 3; more++) await scene.ends(scene.submit({ seconds: 1 }), "reported");
  const newest = Math.max(...scene.sim.model.leases.keys());
  await scene.run(3_600);
  await scene.sim.restore(backup);
  await scene.until("the server is back", 700, () => scene.sim.server.engine !== null);
  assert.deepEqual([scene.sim.stateOf(key), scene.lease(key)], ["open", first]);
  const took = await scene.ends(key, "reported");
  assert.deepEqual(scene.course(key), ["ada expired", "ada reported"]);
  assert(scene.lease(key) > newest, "no id that was given out since is given out again");
  assert(took >= 300, "nobody lost the lease before its time");
});

Deno.test("a lease of since a backup is stale to whoever holds it, and its job does not run on", async () => {
  await using scene = await Scene.of(["ada"]);
  const backup = await scene.sim.disk.backup();
  const key = await scene.running("ada", { seconds: 5_000 });
  await scene.sim.restore(backup);
  await scene.until("the server is back", 700, () => scene.sim.server.engine !== null);
  await scene.until("ada stops", 30, () => scene.worker("ada").running.length === 0);
  assert.equal(scene.sim.job(key), null, "what was submitted since is forgotten");
  await scene.ends(scene.submit(), "reported");
});

Deno.test("a machine whose disk is full gives its job back, which costs the job no attempt", async () => {
  await using scene = await Scene.of(["ada", "bob"]);
  scene.worker("ada").diskFull = true;
  scene.cut("bob");
  const key = scene.submit({ seconds: 5 }, 1);
  await scene.until("ada gives it back", 60, () => scene.course(key).includes("ada expired"));
  scene.mend("bob");
  await scene.ends(key, "reported", 120);
  assert.deepEqual(scene.course(key), ["ada expired", "bob reported"]);
});

Deno.test("a job that fills every disk is dead in the end", async () => {
  await using scene = await Scene.of(["ada"]);
  scene.worker("ada").diskFull = true;
  const key = scene.submit({ seconds: 5 }, 2);
  await scene.ends(key, "dead", 20_000);
  assert.equal(scene.course(key).length, 12);
});

Deno.test("an agent of the server's own worker is found again when the server was killed", async () => {
  await using scene = await Scene.of([]);
  const serve = scene.sim.addWorker("serve", { pool: "serve", serve: true });
  serve.takesAlong = 0;
  serve.start();
  const key = await scene.running("serve", { kind: "agent", seconds: 200 });
  scene.sim.server.crash("a test");
  assert(!serve.alive);
  await scene.ends(key, "reported", 900);
  assert.deepEqual(scene.course(key), ["serve reported"]);
});

Deno.test("an evaluation of the server's own worker is given back when the server closes, and runs again", async () => {
  await using scene = await Scene.of([]);
  scene.sim.addWorker("serve", { pool: "serve", serve: true }).start();
  const key = await scene.running("serve", { seconds: 100 });
  void scene.sim.server.restart();
  await scene.ends(key, "reported", 900);
  assert.deepEqual(scene.course(key), ["serve expired", "serve reported"]);
});

Deno.test("a worker of piloop's works, is renewed, and its lease is lost when it falls silent", async () => {
  await using scene = await Scene.of(["pip"], { piloop: true });
  const key = await scene.running("pip", { kind: "agent", seconds: 400 });
  await scene.ask((engine) => engine.prompt(scene.sim.job(key) ?? 0, 1, "go on"));
  await scene.until("it arrives", 30, () => scene.sim.prompts.has(`pip/${scene.lease(key)}/go on`));
  await scene.ends(key, "reported", 500);
  const lost = await scene.running("pip", { seconds: 4_000 });
  scene.cut("pip");
  const stopped = await scene.until(
    "pip stops",
    300,
    () => scene.worker("pip").running.length === 0,
  );
  assert(stopped <= 286, `stopped after ${stopped} s`);
  await scene.until("it is lost", 60, () => scene.course(lost)[0] === "pip expired");
});

Deno.test("a worker of piloop's that is started again with a report that nobody can read gets rid of it", async () => {
  await using scene = await Scene.of(["pip"], { piloop: true });
  const key = scene.submit({ ends: "invalid", seconds: 5 }, 1);
  let starts = 0;
  while (scene.sim.stateOf(key) !== "dead" && starts < 10) {
    await scene.run(60);
    if (scene.worker("pip").alive) continue;
    scene.worker("pip").start();
    starts++;
  }
  assert.equal(scene.sim.stateOf(key), "dead");
  await scene.run(60);
  if (!scene.worker("pip").alive) scene.worker("pip").start();
  await scene.ends(scene.submit({ seconds: 5 }), "reported", 120);
  await scene.until("it keeps nothing", 30, () => scene.worker("pip").worker?.leases.length === 0);
});
