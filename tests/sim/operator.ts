/** @module People and programs who submit jobs, cancel them, try them again, prompt them, and tend to workers. */

import type { Random } from "./random.ts";
import type { Simulation } from "./simulation.ts";
import { isLive } from "./model.ts";

/** What jobs may require, each of which some plain worker fits. */
export const LANES = [
  { kind: "evaluation", requires: {} },
  { kind: "evaluation", requires: { pool: "lab" } },
  { kind: "evaluation", requires: { pool: "gpu", runner: "process" } },
  { kind: "evaluation", requires: { labels: ["big"] } },
  { kind: "agent", requires: {} },
] as const;

/** The operator. */
export class Operator {
  #over = false;

  /** `pace`: how many times longer everything takes that people do. */
  constructor(
    private readonly sim: Simulation,
    private readonly random: Random,
    private readonly pace = 1,
  ) {}

  start(): void {
    const { random } = this;
    this.#every(random.between(8, 40), () => this.submit());
    if (random.chance(0.6)) this.#every(random.between(40, 200), () => this.#cancel());
    if (random.chance(0.5)) this.#every(random.between(60, 300), () => this.#retry());
    if (random.chance(0.5)) this.#every(random.between(20, 100), () => this.#prompt());
    if (random.chance(0.2)) this.#every(random.between(60, 300), () => this.#settle());
    if (random.chance(0.4)) this.#every(random.between(100, 400), () => this.#tend());
    // Whoever runs workers starts them again when they end or die.
    this.#every(20 / this.pace, () => this.keepWorkers());
  }

  stop(): void {
    this.#over = true;
  }

  #every(mean: number, act: () => void): void {
    const { world } = this.sim;
    const wait = -Math.log(1 - this.random.next()) * mean * this.pace * 1000;
    world.at(world.now + wait, () => {
      if (this.#over) return;
      act();
      this.#every(mean, act);
    });
  }

  submit(): string {
    const { random } = this;
    const lane = random.pick(LANES);
    const roll = random.next();
    const seconds = roll < 0.7
      ? random.between(1, 40)
      : roll < 0.9
      ? random.between(40, 150)
      : random.between(150, 700);
    const ends = random.chance(0.85)
      ? "well"
      : random.pick(["unstored", "invalid", "lost", "fault"] as const);
    return this.sim.submit({ kind: lane.kind, seconds, ends }, {
      requires: lane.requires,
      priority: random.int(0, 2),
      campaign: random.pick([null, 1, 2, 3]),
      maxAttempts: random.int(1, 4),
    });
  }

  keepWorkers(): void {
    for (const worker of this.sim.workers) {
      if (worker.spec.serve === true && this.sim.server.engine === null) continue;
      if (!worker.alive && this.sim.world.now >= worker.restUntil) worker.start();
    }
  }

  /** Undo what {@linkcode #tend} did. */
  async resumeAll(): Promise<void> {
    for (const [name, { drained, paused }] of this.sim.model.workers) {
      if (!drained && !paused) continue;
      while (true) {
        const done = await this.sim.ask(`resumes ${name}`, (engine) => engine.resume(name));
        if (done !== null) break;
        await this.sim.world.sleep(2_000);
      }
    }
  }

  #someJob(state: readonly string[]): string | null {
    const keys = [...this.sim.model.jobs.values()].filter((job) => state.includes(job.state))
      .map((job) => job.key);
    return keys.length === 0 ? null : this.random.pick(keys);
  }

  #cancel(): void {
    const key = this.#someJob(["open"]);
    if (key !== null) void this.sim.cancel(key);
  }

  #retry(): void {
    const key = this.#someJob(["dead", "cancelled"]);
    const id = key === null ? null : this.sim.job(key);
    if (id !== null) void this.sim.ask(`retries ${key}`, (engine) => engine.retryJob(id));
  }

  #prompt(): void {
    const live = [...this.sim.model.leases.values()].filter((lease) => isLive(lease.state));
    if (live.length === 0) return;
    const { job } = this.random.pick(live);
    const id = this.sim.promptId();
    void this.sim.ask(`prompts ${job}`, (engine) => engine.prompt(job, id, `prompt ${id}`));
  }

  /** Something else settles a job, and does not tell the engine. */
  #settle(): void {
    const key = this.#someJob(["open"]);
    if (key === null) return;
    void this.sim.ask(
      `settles ${key}`,
      (_, db) =>
        db.write((tx) =>
          tx.run("INSERT INTO sim_settled (key) VALUES (?) ON CONFLICT DO NOTHING", [key])
        ),
    );
  }

  #tend(): void {
    const names = [...this.sim.model.workers.keys()];
    if (names.length === 0) return;
    const name = this.random.pick(names);
    const what = this.random.pick(["drain", "pause", "resume", "removeWorker"] as const);
    void this.sim.ask(`${what} ${name}`, (engine) => engine[what](name));
  }
}
