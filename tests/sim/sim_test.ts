/** @module The simulation: many seeds, one seed twice, and faults in the code that it must see. */

import assert from "node:assert/strict";
import { simulateMany } from "./many.ts";
import { tryMutations } from "./mutate.ts";
import { MUTATIONS } from "./mutations.ts";
import { simulate } from "./simulate.ts";

/** How many seeds the test command runs, on two processes. */
const SEEDS = 500;
/** A seed that goes on for more than an hour, and restores a backup of then. */
const LONG = 67;
/** Faults that the first seeds show; all of them are tried by `deno task sim --mutations`. */
const SOME = [
  "the fence does not ask",
  "a worker's loss is believed",
  "a report that is sent again is refused",
  "a report's blobs are not looked for",
  "a report is not applied",
  "leases expire when their worker is unreachable",
  "a heartbeat renews nothing",
  "a stale lease is answered as renewed",
  "slots are not counted",
  "attempts are not counted",
];
/** How many seeds each gets. Most need one or two. */
const SEEDS_FOR_EACH = 20;

Deno.test("one seed twice gives the same log, byte for byte", async () => {
  for (const seed of [3, 142, LONG]) {
    const [first, second] = [await simulate(seed), await simulate(seed)];
    assert(first.log.length > 500);
    assert.equal(first.log.join("\n"), second.log.join("\n"));
  }
});

Deno.test(`${SEEDS} seeds break no rule`, async () => {
  const { failures, seconds, wall } = await simulateMany(1, SEEDS, 2);
  console.log(
    `${SEEDS} seeds: ${Math.round(seconds)} virtual seconds in ${Math.round(wall)} s, ` +
      `${Math.round(seconds / wall)} to 1`,
  );
  assert.deepEqual(failures, [], "`deno task sim --log --seed N` shows what happened");
});

Deno.test("every fault that is put into the code can be put there", async () => {
  for (const { name, edits } of MUTATIONS) {
    for (const { file, find } of edits) {
      const text = await Deno.readTextFile(new URL(`../../lib/lease/${file}`, import.meta.url));
      assert(text.includes(find), `"${name}" does not apply to ${file}: ${find}`);
    }
  }
  assert(MUTATIONS.length >= 30);
});

Deno.test("the simulation sees faults in the code", async () => {
  const some = MUTATIONS.filter(({ name }) => SOME.some((part) => name.startsWith(part)));
  assert.equal(some.length, SOME.length);
  const done = await tryMutations(some, 1, SEEDS_FOR_EACH, 2, () => {});
  assert.deepEqual(
    done.filter(({ seed }) => seed === null).map(({ mutation }) => mutation.name),
    [],
  );
});
