/** @module Faults of several steps, each of which only harms when the one before went as it must. */

import { isLive } from "./model.ts";
import type { Random } from "./random.ts";
import type { Simulation } from "./simulation.ts";
import type { SimWorker } from "./worker.ts";

/** A kind of fault: it begins, and what is returned ends it. */
export type Fault = (sim: Simulation, random: Random) => Undo;

/** What ends a fault: after a while, or when all faults end, unless it has ended by itself. */
export type Undo = (() => void) | { readonly atEnd: () => void } | void;

/** A fault of a worker. What happens to the one inside the server happens to the server. */
export function onWorker(
  begin: (worker: SimWorker, sim: Simulation, random: Random) => Undo,
): Fault {
  return (sim, random) =>
    begin(random.pick(sim.workers.filter(({ spec }) => spec.serve !== true)), sim, random);
}

/** Go from step to step until all faults end; `undo` runs then, or after the last. */
function staged(undo: () => void, steps: (over: () => boolean) => Promise<void>): Undo {
  let over = false;
  const end = () => {
    if (over) return;
    over = true;
    undo();
  };
  void steps(() => over).then(end);
  return { atEnd: end };
}

/** Resolve once `condition` holds, or after `seconds`; whether it does. */
async function comes(
  sim: Simulation,
  seconds: number,
  over: () => boolean,
  condition: () => boolean,
): Promise<boolean> {
  const until = sim.world.now + seconds * 1000;
  while (!over() && sim.world.now < until) {
    if (condition()) return true;
    await sim.world.sleep(500);
  }
  return false;
}

/** A worker of ours that runs an agent for a good while: submit one and see who takes it. */
async function withAgent(sim: Simulation, over: () => boolean): Promise<SimWorker | null> {
  // One at a time: agents' slots are few.
  if (sim.staged !== null && sim.stateOf(sim.staged) === "open") return null;
  const key = sim.staged = sim.submit({
    kind: "agent",
    seconds: sim.timing.toleration * 1.5 + 60,
  });
  let found: SimWorker | null = null;
  await comes(sim, 90, over, () => {
    const job = sim.job(key);
    for (const [id, lease] of sim.model.leases) {
      if (lease.job !== job || lease.state !== "running") continue;
      found = sim.workers.find((worker) => worker.running.includes(id)) ?? null;
    }
    return found !== null;
  });
  const worker = found as SimWorker | null;
  return worker?.spec.serve === true || worker?.spec.piloop === true ? null : worker;
}

/** The faults, by name. */
export const STAGED: Readonly<Record<string, Fault>> = {
  "a worker dies, is back late, and is cut off": onWorker((worker, sim, random) => {
    const { network, timing } = sim;
    const late = random.between(0.3, 0.9) * timing.toleration;
    const undo = () => {
      worker.restUntil = 0;
      network.mute.delete(worker.name);
    };
    return staged(undo, async (over) => {
      worker.takesAlong = 0;
      worker.crash("a fault");
      worker.restUntil = sim.world.now + late * 1000;
      await comes(sim, late, over, () => false);
      if (over()) return;
      worker.start();
      if (!await comes(sim, 30, over, () => worker.running.length > 0)) return;
      network.mute.add(worker.name);
      // It takes as long as it takes.
      await comes(sim, timing.toleration * 1.5 + 60, over, () => false);
    });
  }),
  "a worker hears late that it is back, and is cut off": (sim, random) => {
    const { network, timing } = sim;
    let worker: SimWorker | null = null;
    const undo = () => {
      if (worker === null) return;
      network.lateRegister.delete(worker.name);
      network.mute.delete(worker.name);
    };
    return staged(undo, async (over) => {
      worker = await withAgent(sim, over);
      if (worker === null || over()) return;
      worker.takesAlong = 0;
      worker.crash("a fault");
      network.lateRegister.set(worker.name, random.between(20_000, 29_000));
      worker.start();
      await comes(sim, timing.toleration * 1.5 + 90, over, () => false);
    });
  },
  "a backup from before prompts were answered is restored": (sim) => {
    const { world, network, disk } = sim;
    let worker: SimWorker | null = null;
    const undo = () => void (worker !== null && network.mute.delete(worker.name));
    return staged(undo, async (over) => {
      worker = await withAgent(sim, over);
      if (worker === null || over()) return;
      const { token } = worker.spec;
      const lease = sim.model.liveOf(token, "agents")[0];
      const job = lease === undefined ? undefined : sim.model.leases.get(lease)?.job;
      if (job === undefined) return;
      network.mute.add(worker.name);
      const open = () =>
        [...sim.model.mails.values()].filter((mail) =>
          mail.lease === lease && mail.kind === "prompt" && !mail.answered
        ).length;
      for (let prompt = 1; prompt <= 2; prompt++) {
        const id = sim.promptId();
        await sim.ask(`prompts ${job}`, (engine) => engine.prompt(job, id, `prompt ${id}`));
      }
      if (open() < 2 || over()) return;
      world.pending++;
      const backup = await disk.backup();
      world.pending--;
      network.mute.delete(worker.name);
      const live = () => isLive(sim.model.leases.get(lease ?? 0)?.state ?? "expired");
      if (!await comes(sim, 90, over, () => open() === 0 && live())) return;
      // Its next poll says how far it has read.
      await comes(sim, 2, over, () => false);
      if (over()) return;
      world.pending++;
      await sim.restore(backup);
      world.pending--;
    });
  },
};
