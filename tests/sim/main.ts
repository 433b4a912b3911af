/** @module Simulate seeds from a command line: `main.ts FIRST COUNT [--log]`, one JSON line for each failure. */

import { simulate } from "./simulate.ts";

if (import.meta.main) {
  const [first = "1", count = "1", ...flags] = Deno.args;
  const began = performance.now();
  let seconds = 0;
  let failed = 0;
  for (let seed = Number(first); seed < Number(first) + Number(count); seed++) {
    const outcome = await simulate(seed);
    seconds += outcome.seconds;
    if (flags.includes("--progress")) {
      console.error(seed, outcome.steps, Math.round(outcome.seconds));
    }
    if (flags.includes("--log")) console.log(outcome.log.join("\n"));
    for (const { rule, message } of outcome.violations.slice(0, 1)) {
      failed++;
      console.log(JSON.stringify({ seed, rule, message: message.slice(0, 600) }));
    }
    if (failed > 0 && flags.includes("--first")) break;
  }
  const wall = (performance.now() - began) / 1000;
  const rate = Math.round(seconds / wall);
  console.log(
    JSON.stringify({ seeds: Number(count), failed, seconds: Math.round(seconds), wall, rate }),
  );
  if (failed > 0) Deno.exit(1);
}
