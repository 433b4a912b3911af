/** @module The contract of a version control provider, as a suite that every provider passes. */

import { messageOf, SubletError } from "../home/mod.ts";
import { benchOf, type VcsCheckOptions } from "./check_bench.ts";
import { FILES, MOVING } from "./check_moving.ts";
import { NAMING } from "./check_naming.ts";
import { MERGING, WORK } from "./check_work.ts";
import type { Vcs } from "./contract.ts";

export type { VcsCheckOptions } from "./check_bench.ts";

const RULES = [...NAMING, ...MOVING, ...FILES, ...MERGING, ...WORK];

/** Check `vcs` against the contract. Throws `failed` with every rule that it breaks. */
export async function checkVcs(vcs: Vcs, options: VcsCheckOptions): Promise<void> {
  const broken: string[] = [];
  for (const [i, [rule, keeps]] of RULES.entries()) {
    try {
      if (!await keeps(await benchOf(vcs, options, `${options.scratch}/${i}`))) broken.push(rule);
    } catch (error) {
      broken.push(`${rule} (${messageOf(error)})`);
    }
  }
  if (broken.length === 0) return;
  throw new SubletError("failed", `the provider breaks its contract:\n- ${broken.join("\n- ")}`);
}
