/** @module What goes wrong, by seed: a few kinds of fault for each, at random times and for random times. */

import type { Backup, DiskFaults } from "./database.ts";
import { type Fault, onWorker, STAGED } from "./faults_staged.ts";
import { CALM, type Weather } from "./network.ts";
import type { Random } from "./random.ts";
import type { Simulation } from "./simulation.ts";

const DAY_MS = 86_400_000;

function weather<K extends keyof Weather>(key: K, from: number, to: number): Fault {
  return (sim, random) => {
    sim.network.weather[key] = random.between(from, to);
    return () => sim.network.weather[key] = 0;
  };
}

function disk(key: keyof DiskFaults, chance: number): Fault {
  return (sim) => {
    sim.disk.faults[key] = chance;
    return () => sim.disk.faults[key] = 0;
  };
}

function inSet(set: (sim: Simulation) => Set<string>, all: boolean): Fault {
  return (sim, random) => {
    const names = all ? sim.workers.map((worker) => worker.name) : [random.pick(sim.workers).name];
    for (const name of names) set(sim).add(name);
    return () => names.forEach((name) => set(sim).delete(name));
  };
}

/** Every kind of fault, by name. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  "requests are lost": weather("lost", 0.05, 0.5),
  "answers are lost": weather("answerLost", 0.05, 0.5),
  "requests are doubled": weather("doubled", 0.1, 0.6),
  "messages are slow": weather("slow", 0.02, 0.4),
  "a proxy answers": weather("noise", 0.02, 0.3),
  "a worker cannot be heard": inSet((sim) => sim.network.mute, false),
  "a worker cannot hear": inSet((sim) => sim.network.deaf, false),
  "nobody can be heard": inSet((sim) => sim.network.mute, true),
  "nobody can hear": inSet((sim) => sim.network.deaf, true),
  "the server dies": (sim) => sim.server.crash("a fault"),
  "the server is started again": (sim) => void sim.server.restart(),
  "the server stands still": (sim, random) => {
    const { machine } = sim.server.options;
    if (machine.still !== null) return;
    const since = sim.world.now;
    machine.stand(random.pick(["suspended", "frozen"]));
    return () => {
      machine.wake();
      sim.watch.woke(sim.world.now - since);
      sim.runs.woke(machine);
    };
  },
  "the server dies between statements": disk("crash", 0.02),
  "the server dies after a commit": disk("crashAfterCommit", 0.02),
  "statements fail": disk("failing", 0.1),
  "transactions are undone": disk("undone", 0.1),
  "another process holds the database": disk("busy", 0.3),
  "the server's disk is full": (sim) => {
    sim.disk.full = true;
    return () => sim.disk.full = false;
  },
  "a worker dies": onWorker((worker) => worker.crash("a fault")),
  ...STAGED,
  "a worker loses power": onWorker((worker) => worker.powerCut()),
  "a worker dies at some await": onWorker((worker, _sim, random) => {
    worker.fragile = random.between(0.005, 0.05);
    if (worker.process !== null) worker.process.fragile = worker.fragile;
    return () => {
      worker.fragile = 0;
      if (worker.process !== null) worker.process.fragile = 0;
    };
  }),
  "a worker stands still": onWorker((worker, sim, random) => {
    const { machine } = worker;
    // A suspend hides its time from piloop's workers, which look at no wall clock.
    machine.stand(worker.spec.piloop === true ? "frozen" : random.pick(["suspended", "frozen"]));
    return () => {
      machine.wake();
      sim.runs.woke(machine);
    };
  }),
  "a worker is told to stop": onWorker((worker) => {
    if (worker.alive) worker.worker?.stop();
  }),
  "a worker is told to drain": onWorker((worker) => {
    if (worker.alive) worker.worker?.drain();
  }),
  "a worker's disk is full": onWorker((worker) => {
    worker.diskFull = true;
    return () => worker.diskFull = false;
  }),
  "a worker's spool fails": onWorker((worker, _sim, random) => {
    worker.spoolFails = random.between(0.1, 0.9);
    return () => worker.spoolFails = 0;
  }),
  "writes to the store fail": (sim, random) => {
    sim.blobs.failing = random.between(0.1, 0.7);
    return () => sim.blobs.failing = 0;
  },
  "a worker is cut off from the store": onWorker((worker, sim, random) => {
    sim.blobs.cut.set(worker.name, random.pick(["failing", "hanging"]));
    return () => sim.blobs.cut.delete(worker.name);
  }),
  "the server is cut off from the store": (sim, random) => {
    sim.blobs.cut.set("server", random.pick(["failing", "hanging"]));
    return () => sim.blobs.cut.delete("server");
  },
  "a worker's wall clock jumps": onWorker((worker, _sim, random) => {
    worker.machine.jumpWall(random.pick([-DAY_MS, DAY_MS, -100_000, 100_000]));
  }),
  "the server's wall clock jumps": (sim, random) => {
    sim.server.options.machine.jumpWall(random.pick([-DAY_MS, DAY_MS, -100_000, 100_000]));
    sim.around.steady = false;
  },
};

/** How many backups are kept. */
const BACKUPS = 6;

/** The faults of one simulation. */
export class Trouble {
  readonly names: string[] = [];
  /** Whether it goes on for more than an hour. */
  readonly long: boolean;
  readonly #random: Random;
  #over = false;
  readonly #ends = new Set<() => void>();
  readonly #backups: Backup[] = [];
  readonly #sim: Simulation;

  constructor(sim: Simulation, random: Random) {
    this.#sim = sim;
    this.#random = random;
    const likely = random.pick([0.1, 0.2, 0.4]);
    for (const name of [...Object.keys(FAULTS), RESTORE]) {
      const often = name === RESTORE ? 0.15 : likely;
      if (random.chance(often)) this.names.push(name);
    }
    this.long = random.chance(0.05);
    if (this.long) this.names.push(HOURLY, COLLECT);
  }

  /** Begin. */
  start(): void {
    for (const name of this.names) {
      if (name === RESTORE) this.#restores();
      else if (name === HOURLY) this.#restoreHourLater();
      else if (name === COLLECT) this.#collects();
      else this.#plan(name);
    }
  }

  /** End everything, for good. */
  stop(): void {
    this.#over = true;
    for (const end of [...this.#ends]) end();
    Object.assign(this.#sim.network.weather, CALM);
  }

  #plan(name: string, mean = this.#random.between(40, 300) * (this.long ? LONG_PACE : 1)): void {
    const { world } = this.#sim;
    const wait = -Math.log(1 - this.#random.next()) * mean * 1000;
    world.at(world.now + wait, () => {
      if (this.#over) return;
      world.note(`fault: ${name}`);
      const undo = FAULTS[name]?.(this.#sim, this.#random);
      if (typeof undo === "object") this.#ends.add(undo.atEnd);
      if (typeof undo === "function") {
        const end = () => {
          if (!this.#ends.delete(end)) return;
          world.note(`over: ${name}`);
          undo();
        };
        this.#ends.add(end);
        const most = this.#random.pick([5, 30, 120, 400]);
        world.at(world.now + this.#random.between(1, most) * 1000, end);
      }
      this.#plan(name, mean);
    });
  }

  /** Like whoever has nothing but a backup of an hour ago: what was done since is forgotten. */
  #restoreHourLater(): void {
    const { world } = this.#sim;
    world.at(world.now + this.#random.between(60_000, 200_000), async () => {
      world.pending++;
      const backup = await this.#sim.disk.backup();
      world.pending--;
      world.at(world.now + HOUR_MS, async () => {
        if (this.#over) return;
        world.pending++;
        await this.#sim.restore(backup);
        // A later one names blobs that nobody named meanwhile.
        this.#backups.length = 0;
        world.pending--;
      });
    });
  }

  #collects(): void {
    const { world, blobs, model } = this.#sim;
    world.at(world.now + COLLECT_MS, () => {
      if (this.#over) return;
      world.note(`collected: ${blobs.collect(model.named, KEPT_MS)} blobs`);
      this.#collects();
    });
  }

  #restores(): void {
    const { world } = this.#sim;
    world.at(world.now + 90_000, async () => {
      if (this.#over) return;
      world.pending++;
      if (this.#backups.length > 2 && this.#random.chance(0.3)) {
        await this.#sim.restore(this.#random.pick(this.#backups));
      } else {
        this.#backups.push(await this.#sim.disk.backup());
        if (this.#backups.length > BACKUPS) this.#backups.shift();
      }
      world.pending--;
      this.#restores();
    });
  }
}

const RESTORE = "an old database is restored";
const HOURLY = "a backup of an hour ago is restored";
const COLLECT = "blobs that nobody names are deleted";
const HOUR_MS = 3_600_000;
/** How much rarer faults and work are in a simulation of more than an hour. */
export const LONG_PACE = 5;
/** How long a blob that nobody names is kept, and how often somebody looks. */
const KEPT_MS = 3_000_000;
const COLLECT_MS = 400_000;
