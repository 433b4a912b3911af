/** @module A machine with clocks of its own, which can stand still; and the processes on it, which can die. */

import type { Clock, Ids } from "../../lib/home/mod.ts";
import type { Random } from "./random.ts";
import type { World } from "./world.ts";

/**
 * How a machine stands still. Suspended: its monotonic clock stands still too. Frozen: its clocks go on, as those of a
 * stopped process do.
 */
export type Still = "suspended" | "frozen";

/** No timer fires sooner. */
const SHORTEST_MS = 0.05;

/** A machine. */
export class Machine {
  still: Still | null = null;
  /** World time of its last waking. */
  wokeAt = -Infinity;
  #parked: (() => void)[] = [];
  #monotonic: number;
  #since = 0;
  #wallOffset: number;

  /** `rate`: milliseconds of its clocks in one of the world. */
  constructor(readonly world: World, readonly name: string, readonly rate: number, wall: number) {
    this.#monotonic = 1000;
    this.#wallOffset = wall;
  }

  monotonic(): number {
    if (this.still === "suspended") return this.#monotonic;
    return this.#monotonic + (this.world.now - this.#since) * this.rate;
  }

  wall(): number {
    return this.#wallOffset + this.world.now * this.rate;
  }

  jumpWall(ms: number): void {
    this.#wallOffset += ms;
  }

  stand(how: Still): void {
    if (this.still !== null) return;
    this.#monotonic = this.monotonic();
    this.#since = this.world.now;
    this.still = how;
    this.world.note(`${this.name} ${how}`);
  }

  wake(): void {
    if (this.still === null) return;
    this.#monotonic = this.monotonic();
    this.#since = this.world.now;
    this.still = null;
    this.wokeAt = this.world.now;
    this.world.note(`${this.name} wakes`);
    for (const run of this.#parked.splice(0)) this.world.at(this.world.now, run);
  }

  /** Run `run` now, or when the machine wakes. */
  awake(run: () => void): void {
    if (this.still === null) run();
    else this.#parked.push(run);
  }

  /** Run `run` when the monotonic clock has reached `due`. What is returned takes it back. */
  whenMonotonic(due: number, run: () => void): () => void {
    let cancel = () => {};
    let over = false;
    const fire = () => {
      if (over) return;
      if (this.still !== null) this.#parked.push(fire);
      else if (this.monotonic() < due) arm();
      else run();
    };
    const arm = () => {
      const wait = (due - this.monotonic()) / this.rate;
      cancel = this.world.at(this.world.now + Math.max(wait, SHORTEST_MS), fire);
    };
    arm();
    return () => {
      over = true;
      cancel();
    };
  }
}

/** A process: once it is dead, nothing that it does has any effect, and nothing it waits for comes. */
export class Process {
  alive = true;
  readonly clock: Clock;
  readonly ids: Ids;
  onDeath: () => void = () => {};
  /** Chance that it dies before or after one call of a port. */
  fragile = 0;

  constructor(readonly machine: Machine, readonly name: string, readonly random: Random) {
    this.clock = new ProcessClock(this);
    this.ids = { uuid: () => random.uuid(), random: () => random.next() };
  }

  die(why: string): void {
    if (!this.alive) return;
    this.alive = false;
    this.machine.world.note(`${this.name} dies: ${why}`);
    this.onDeath();
  }

  /** Die here, maybe. */
  await(what: string): void {
    if (this.fragile > 0 && this.alive && this.random.chance(this.fragile)) this.die(what);
  }

  /** A call of a port that takes `ms` milliseconds of the world. What a dead process calls never happens. */
  port<T>(what: string, ms: number, effect: () => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.await(`before ${what}`);
      if (!this.alive) return;
      const { world } = this.machine;
      world.at(world.now + ms, () =>
        this.machine.awake(async () => {
          if (!this.alive) return;
          try {
            const value = await effect();
            this.await(`after ${what}`);
            if (this.alive) resolve(value);
          } catch (error) {
            if (this.alive) reject(error);
          }
        }));
    });
  }
}

class ProcessClock implements Clock {
  readonly #process: Process;

  constructor(process: Process) {
    this.#process = process;
  }

  now(): number {
    return this.#process.machine.wall();
  }

  monotonic(): number {
    return this.#process.machine.monotonic();
  }

  after(ms: number, run: () => void): () => void {
    const { machine } = this.#process;
    return machine.whenMonotonic(machine.monotonic() + Math.max(0, ms), () => {
      if (this.#process.alive) run();
    });
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const end = () => {
        cancel();
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.after(ms, end);
      signal?.addEventListener("abort", end);
    });
  }
}
