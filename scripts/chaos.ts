/**
 * @module Chaos with real processes: `deno task chaos [--rounds N] [--seed S] [--binary FILE]`. Prints a line a round, and
 * exits with 1 at the first promise that is broken. Linux only.
 */

import { parseArgs } from "node:util";
import { Chaos } from "../tests/e2e/chaos.ts";

const { values } = parseArgs({
  args: Deno.args,
  options: {
    rounds: { type: "string", default: "20" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    binary: { type: "string" },
  },
});
const rounds = Number(values.rounds);
const seed = Number(values.seed);

async function main(): Promise<number> {
  if (!Number.isInteger(rounds) || rounds < 1 || !Number.isInteger(seed)) {
    console.error("give --rounds N and --seed S as whole numbers");
    return 2;
  }
  console.log(`seed ${seed}, ${rounds} rounds`);
  const sums = { evaluations: 0, lost: 0, retried: 0 };
  try {
    await using chaos = await Chaos.start(seed, values.binary ?? null);
    for (let n = 0; n < rounds; n++) {
      const round = await chaos.round();
      sums.evaluations += round.evaluations;
      sums.lost += round.lost;
      sums.retried += round.retried;
      console.log(
        `${String(round.round).padStart(4)}  ${round.seconds.toFixed(1).padStart(5)} s  ` +
          `${round.lost} leases lost  ${round.faults.join(", ")}`,
      );
    }
  } catch (error) {
    console.error(error);
    console.error(`again: deno task chaos --rounds ${rounds} --seed ${seed}`);
    return 1;
  }
  console.log(
    `${rounds} rounds: ${sums.evaluations} evaluations, each accepted once; ${sums.lost} leases lost, ` +
      `${sums.retried} dead jobs tried again; no process left`,
  );
  return 0;
}

Deno.exit(await main());
