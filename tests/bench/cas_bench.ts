/**
 * @module Figures of the store, beside what else could be used: piloop's service (SUBLET_TEST_PILOOP), bazel-remote
 * (SUBLET_TEST_BAZEL_REMOTE or the PATH), and `b3sum` (SUBLET_TEST_B3SUM or the PATH).
 */

import { largeBlobs } from "./cas_large.ts";
import { local } from "./cas_local.ts";
import { smallBlobs } from "./cas_small.ts";
import type { Figure } from "./figure.ts";

/** Measure everything: some minutes. SUBLET_BENCH_CAS=small,large,local chooses. */
export async function run(): Promise<Figure[]> {
  const suites = { small: smallBlobs, large: largeBlobs, local };
  const chosen = (Deno.env.get("SUBLET_BENCH_CAS") || "small,large,local").split(",");
  const figures: Figure[] = [];
  for (const [name, suite] of Object.entries(suites)) {
    if (chosen.includes(name)) figures.push(...await suite());
  }
  return figures;
}
