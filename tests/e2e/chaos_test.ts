/**
 * @module A few rounds of chaos. `deno task chaos --rounds 200` is the long run; SUBLET_LONG_TESTS=1 does as many here.
 */

import assert from "node:assert/strict";
import { Chaos, seeded } from "./chaos.ts";

const ROUNDS = Deno.env.get("SUBLET_LONG_TESTS") === "1" ? 200 : 3;

Deno.test({
  name: "nothing is lost, counted twice or left running, whatever is stopped, killed or cut",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    try {
      await using chaos = await Chaos.start(seed);
      for (let n = 0; n < ROUNDS; n++) await chaos.round();
    } catch (error) {
      throw new Error(`deno task chaos --rounds ${ROUNDS} --seed ${seed}`, { cause: error });
    }
  },
});

Deno.test("a seed determines the faults", () => {
  const [a, b, c] = [seeded(1), seeded(1), seeded(2)];
  const ten = (random: () => number) => Array.from({ length: 10 }, random);
  const first = ten(a);
  assert.deepEqual(ten(b), first);
  assert.notDeepEqual(ten(c), first);
  assert.ok(first.every((value) => value >= 0 && value < 1));
});
