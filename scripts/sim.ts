/**
 * @module The simulation from the command line.
 *
 * Usage: `deno task sim --seeds N [--seed FIRST] [--log]` simulates; `deno task sim --mutations [--seeds N] [NAME…]`
 * puts faults into copies of the lease code and says which seeds saw them.
 */

import { parseArgs } from "node:util";
import { tryMutations } from "../tests/sim/mutate.ts";
import { MUTATIONS } from "../tests/sim/mutations.ts";
import { simulateMany } from "../tests/sim/many.ts";
import { simulate } from "../tests/sim/simulate.ts";

async function mutations(names: readonly string[], first: number, count: number): Promise<boolean> {
  const chosen = MUTATIONS.filter(({ name }) =>
    names.length === 0 || names.some((part) => name.includes(part))
  );
  const done = await tryMutations(chosen, first, count, 2, ({ mutation, seed, rule }) => {
    console.log(
      seed === null
        ? `NOT SEEN in ${count} seeds: ${mutation.name}`
        : `seed ${seed}: ${mutation.name} (${rule})`,
    );
  });
  const seen = done.filter(({ seed }) => seed !== null).length;
  console.log(`${seen} of ${done.length} faults were seen`);
  return seen >= done.length - 1;
}

async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    args: Deno.args,
    allowPositionals: true,
    options: {
      seeds: { type: "string", default: "100" },
      seed: { type: "string", default: "1" },
      log: { type: "boolean", default: false },
      mutations: { type: "boolean", default: false },
    },
  });
  const [first, count] = [Number(values.seed), Number(values.seeds)];
  if (values.mutations) return await mutations(positionals, first, count);
  if (values.log) {
    const { log } = await simulate(first);
    console.log(log.join("\n"));
    return true;
  }
  const { failures, seconds, wall } = await simulateMany(first, count, 2);
  for (const { seed, message } of failures) console.log(`seed ${seed}: ${message}`);
  console.log(
    `${count} seeds, ${failures.length} failed: ${Math.round(seconds)} virtual seconds in ` +
      `${wall.toFixed(1)} s, ${Math.round(seconds / wall)} to 1`,
  );
  return failures.length === 0;
}

if (import.meta.main) Deno.exit(await main() ? 0 : 1);
