/** @module Who runs which job when: never two machines at once. */

import type { Machine } from "./machine.ts";
import type { World } from "./world.ts";

/** A job that runs. */
export interface Run {
  readonly key: string;
  readonly lease: number;
  readonly machine: Machine;
  /** World time at which it began. */
  readonly since: number;
  /** Which life of the database granted it: a restored one knows nothing of what came after it. */
  readonly era: number;
}

/** After a machine wakes, its jobs stop within this time (milliseconds): a second until it looks, and the kill. */
export const WAKE_MS = 1_300 + 5_000;

/** Everything that runs. */
export class Runs {
  readonly #byKey = new Map<string, Set<Run>>();
  era = 0;
  /** Clocks differ by more than leases can bear. */
  lax = false;
  count = 0;
  /** Sees every run that ends. */
  onEnd: (run: Run) => void = () => {};

  constructor(readonly world: World) {}

  begin(key: string, lease: number, machine: Machine): Run {
    const run = { key, lease, machine, since: this.world.now, era: this.era };
    let runs = this.#byKey.get(key);
    if (runs === undefined) this.#byKey.set(key, runs = new Set());
    runs.add(run);
    this.count++;
    this.check(key);
    return run;
  }

  end(run: Run): void {
    const runs = this.#byKey.get(run.key);
    if (!runs?.has(run)) return;
    this.check(run.key);
    this.onEnd(run);
    runs.delete(run);
    if (runs.size === 0) this.#byKey.delete(run.key);
  }

  /** Look at every job that runs on `machine` once it had the time to stop it. */
  woke(machine: Machine): void {
    this.world.at(this.world.now + WAKE_MS + 1, () => {
      for (const [key, runs] of this.#byKey) {
        if ([...runs].some((run) => run.machine === machine)) this.check(key);
      }
    });
  }

  check(key: string): void {
    if (this.lax) return;
    const active = [...this.#byKey.get(key) ?? []].filter(({ machine, since }) =>
      machine.still === null &&
      (machine.wokeAt === -Infinity || since > machine.wokeAt ||
        this.world.now - machine.wokeAt > WAKE_MS)
    );
    const [first, second] = active;
    if (first === undefined || second === undefined) return;
    if (first.era !== second.era || first.era !== this.era) return;
    this.world.broken(
      "two workers never run one job",
      `${key} runs on ${first.machine.name} (lease ${first.lease}) and ${second.machine.name} (lease ${second.lease})`,
    );
  }
}
