/** @module What chaos does to processes and connections. */

import { BEYOND, type Chaos } from "./chaos.ts";

/** Something that is done, lasts, and is undone. */
export interface Fault {
  readonly name: string;
  /** What it is done to: two faults of one round have two targets. */
  readonly target: string;
  /** How long it lasts. */
  readonly seconds: number;
  /** Whether it is undone after the others. */
  readonly undoneLast: boolean;
  harm(): Promise<void> | void;
  undo(): Promise<void> | void;
}

async function signal(chaos: Chaos, name: string, signal: Deno.Signal): Promise<void> {
  const { programs } = chaos.cluster;
  try {
    Deno.kill(programs.pid(name), signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    // Nothing of chaos ends it without starting it again.
    throw new Error(await programs.lastWords(name), { cause: error });
  }
}

/** The process stands still for longer than its silence is tolerated, as on a suspended machine. */
function stopped(chaos: Chaos, name: string): Fault {
  return {
    name: `SIGSTOP ${name}`,
    target: name,
    seconds: chaos.between(BEYOND, BEYOND + 2),
    undoneLast: false,
    harm: () => signal(chaos, name, "SIGSTOP"),
    undo: () => signal(chaos, name, "SIGCONT"),
  };
}

async function kill(chaos: Chaos, name: string, midReport: boolean): Promise<void> {
  if (midReport) await chaos.runEnds(3);
  chaos.cluster.programs.kill(name);
  await chaos.cluster.programs.ended(name);
}

/** The worker dies, perhaps just when a run has ended and its report is on its way. */
function killedWorker(chaos: Chaos): Fault {
  const name = chaos.pick(chaos.workers);
  const midReport = chaos.random() < 0.5;
  return {
    name: `SIGKILL ${name}${midReport ? " mid-report" : ""}`,
    target: name,
    seconds: chaos.between(0, 2),
    undoneLast: true,
    harm: () => kill(chaos, name, midReport),
    undo: () => chaos.startWorker(name),
  };
}

/** The server dies, perhaps just when a report is on its way to it. */
function killedServer(chaos: Chaos): Fault {
  const midReport = chaos.random() < 0.5;
  return {
    name: `SIGKILL server${midReport ? " mid-report" : ""}`,
    target: "server",
    seconds: chaos.between(0, 3),
    undoneLast: false,
    harm: () => kill(chaos, "server", midReport),
    undo: () => chaos.cluster.serve(),
  };
}

type Bad = "cut" | "stall" | "drop";

/** The connections of `name` (a worker's, or the store's) are cut, stalled, or dropped once. */
function badNetwork(chaos: Chaos, name: string, how: Bad, seconds: number): Fault {
  return {
    name: `${how} ${name}`,
    target: `network of ${name}`,
    seconds: how === "drop" ? 0 : seconds,
    undoneLast: false,
    harm: () => chaos.proxy(name)[how](),
    undo: () => chaos.proxy(name).mend(),
  };
}

const BAD: readonly Bad[] = ["cut", "stall", "drop"];

/** Makers of faults, each as likely as the others. */
export const FAULTS: readonly ((chaos: Chaos) => Fault)[] = [
  (chaos) => stopped(chaos, chaos.pick(chaos.workers)),
  (chaos) => stopped(chaos, "server"),
  killedWorker,
  killedServer,
  (chaos) =>
    badNetwork(chaos, chaos.pick(chaos.workers), chaos.pick(BAD), chaos.between(1, BEYOND + 2)),
  (chaos) => badNetwork(chaos, "store", chaos.pick(BAD), chaos.between(1, BEYOND)),
];
