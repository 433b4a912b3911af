/** @module One seed: a while of faults and work, then a while in which everything must come to its end. */

import { messageOf } from "../../lib/home/mod.ts";
import { LONG_PACE, Trouble } from "./faults.ts";
import { isLive } from "./model.ts";
import { LANES, Operator } from "./operator.ts";
import { Random } from "./random.ts";
import { Simulation, TIMING } from "./simulation.ts";
import type { Violation } from "./world.ts";

/** What one seed came to. */
export interface Outcome {
  readonly seed: number;
  readonly faults: readonly string[];
  readonly violations: readonly Violation[];
  readonly log: readonly string[];
  /** Virtual seconds. */
  readonly seconds: number;
  readonly steps: number;
  readonly jobs: number;
  readonly runs: number;
}

/** The longest that everything may take to end once nothing goes wrong any more: seconds. */
const ENDS_IN = 4_000;
/** How long a job that a worker can take may wait: one long-poll, and the way there. */
const POLL = 27;

/** The longest that a worker asks for nothing after a fault of its machine, and until it then does: seconds. */
const HOST_PAUSE = 625;

/** Simulate `seed`. */
export async function simulate(seed: number): Promise<Outcome> {
  const random = new Random(seed ^ 0x5eed);
  await using sim = await Simulation.make(seed, {
    timing: random.chance(0.5) ? TIMING : { renew: 5, grace: 20, toleration: 100 },
    drift: random.pick([0, 0, 0.004, 0.004, 0.03]),
  });
  const trouble = new Trouble(sim, random.fork());
  const operator = new Operator(sim, random.fork(), trouble.long ? LONG_PACE : 1);
  addWorkers(sim, random);
  sim.world.note(`seed ${seed}: ${trouble.names.join(", ")}`);
  operator.keepWorkers();
  operator.start();
  trouble.start();
  try {
    await sim.run(random.between(150, 750) + (trouble.long ? 3_700 : 0));
    trouble.stop();
    operator.stop();
    await end(sim, operator);
  } catch (error) {
    const text = error instanceof Error ? error.stack : messageOf(error);
    sim.world.broken("the simulation itself does not fail", text ?? "");
  }
  return {
    seed,
    faults: trouble.names,
    violations: sim.world.violations,
    log: sim.world.log,
    seconds: sim.world.now / 1000,
    steps: sim.world.steps,
    jobs: sim.model.jobs.size,
    runs: sim.runs.count,
  };
}

/** Two workers that together fit every lane, and a few more of every sort. */
function addWorkers(sim: Simulation, random: Random): void {
  sim.addWorker("ada", { labels: ["big"] });
  sim.addWorker("bob", { pool: "gpu" });
  const names = ["cyd", "dee", "eve"];
  for (const name of names.slice(0, random.int(0, 3))) {
    sim.addWorker(name, {
      pool: random.pick(["lab", "gpu"]),
      labels: random.chance(0.3) ? ["big"] : [],
      once: random.chance(0.3),
      heedless: random.chance(0.5),
      orphanExitSeconds: random.chance(0.3) ? 60 : null,
    });
  }
  if (random.chance(0.25)) sim.addWorker("serve", { pool: "serve", serve: true });
  if (random.chance(0.25)) sim.addWorker("pip", { piloop: true });
  if (random.chance(0.2)) {
    // The same credential on another machine, as whoever copies a home makes it.
    const { spec } = random.pick(sim.workers.slice(0, 2)) ?? {};
    sim.addWorker("twin", spec);
  }
}

/** Nothing goes wrong any more: everything must end, everybody must be back, and new work must start at once. */
async function end(sim: Simulation, operator: Operator): Promise<void> {
  const { world } = sim;
  world.note("calm");
  operator.keepWorkers();
  const keep = () => {
    operator.keepWorkers();
    world.at(world.now + 10_000, keep);
  };
  world.at(world.now + 10_000, keep);
  // Whoever starts it may take minutes.
  await sim.run(600, () => sim.server.engine !== null);
  let resumed = false;
  void operator.resumeAll().then(() => resumed = true);
  await sim.run(60, () => resumed);
  const ended = await sim.run(ENDS_IN, () => sim.model.openJobs.length === 0 && quiet(sim));
  if (world.violations.length > 0) return;
  if (!ended) return world.broken("everything ends", whatIsLeft(sim));
  await checkBack(sim);
  await checkProbes(sim);
  await checkDrains(sim);
  if (world.violations.length > 0) return;
  await checkEnd(sim);
}

function quiet(sim: Simulation): boolean {
  if (sim.submitting > 0) return false;
  for (const lease of sim.model.leases.values()) if (isLive(lease.state)) return false;
  return sim.workers.every((worker) => (worker.worker?.leases.length ?? 0) === 0);
}

function whatIsLeft(sim: Simulation): string {
  const jobs = sim.model.openJobs.map((id) => {
    const leases = [...sim.model.open.get(id) ?? []];
    return `job ${id}: ${
      leases.map((lease) => `${lease} ${JSON.stringify(sim.model.leases.get(lease))}`)
    }`;
  });
  const owed = sim.workers.map((worker) => `${worker.name} ${worker.worker?.leases}`);
  return [...jobs, ...owed].join("; ");
}

/** Every worker is registered and heard, whoever was away. */
async function checkBack(sim: Simulation): Promise<void> {
  const tokens = new Set(sim.workers.map((worker) => worker.spec.token));
  const back = () => {
    const seen = sim.server.engine?.listWorkers() ?? [];
    return [...tokens].every((token) => seen.some((worker) => worker.worker === token));
  };
  // A worker of another process's name waits until that one was silent for the grace period.
  if (!await sim.run(sim.timing.grace + 100, back)) {
    sim.world.broken("workers that were away come back", `not all of ${[...tokens]} are known`);
  }
}

/** A job of each sort is taken within one poll. */
async function checkProbes(sim: Simulation): Promise<void> {
  // Whoever takes one job leaves first, so that the next to come is not on its way out.
  await sim.run(60);
  // Nor does one whose machine has just failed ask for work.
  const idle = (sim.hostFaultAt - sim.world.now) / 1000 + HOST_PAUSE;
  if (idle > 0) await sim.run(idle);
  for (const { kind, requires } of LANES) {
    const key = sim.submit({ kind, seconds: 3 }, { requires });
    const began = sim.world.now;
    const taken = () => {
      const id = sim.job(key);
      if (id === null) return false;
      return [...sim.model.leases.values()].some((lease) =>
        lease.job === id && lease.state !== "queued"
      );
    };
    if (!await sim.run(POLL, taken)) {
      const why = JSON.stringify(sim.server.engine?.listWorkers());
      return sim.world.broken(
        "a job that a worker can take starts within one poll",
        `${key} (${JSON.stringify(requires)}) waited ${(sim.world.now - began) / 1000} s: ${why}`,
      );
    }
  }
  if (!await sim.run(60, () => sim.model.openJobs.length === 0 && quiet(sim))) {
    sim.world.broken("everything ends", whatIsLeft(sim));
  }
}

/** Every worker leaves when it is told to. */
async function checkDrains(sim: Simulation): Promise<void> {
  if (sim.world.violations.length > 0) return;
  const before = sim.workers.map((worker) => worker.process);
  for (const name of sim.model.workers.keys()) {
    void sim.ask(`drains ${name}`, (engine) => engine.drain(name));
  }
  const left = () => before.every((process) => process?.alive !== true);
  if (!await sim.run(sim.timing.grace + 120, left)) {
    const who = before.filter((process) => process?.alive).map((process) => process?.name);
    sim.world.broken("drains end", `${who} did not leave`);
  }
}

/** What must hold of everything that happened. */
async function checkEnd(sim: Simulation): Promise<void> {
  const { world, model } = sim;
  await sim.checkModel();
  for (const [id, mail] of model.mails) {
    if (mail.kind !== "prompt") continue;
    if (!mail.answered) world.broken("every prompt is answered", `message ${id}`);
    const text = `${mail.worker}/${mail.lease}/prompt ${mail.prompt}`;
    if (mail.answered && mail.error === null && !sim.prompts.has(text)) {
      world.broken("a prompt that counts as delivered was", text);
    }
  }
}
