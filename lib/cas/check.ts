/**
 * @module The contract of a store, as a suite that every provider passes, our fakes included.
 *
 * All blobs are salted, so it may run on a store that is in use; it leaves a few MiB there.
 */

import { messageOf, SubletError } from "../home/mod.ts";
import { DAMAGE_RULES } from "./check_damage.ts";
import type { Bench, CheckOptions, Rule } from "./check_kit.ts";
import { LARGE } from "./check_large.ts";
import { LIMITS } from "./check_limits.ts";
import { OPTIONAL } from "./check_optional.ts";
import { OUTAGE, SHARED } from "./check_outage.ts";
import { ABSENCE, SMALL } from "./check_small.ts";
import { TOGETHER } from "./check_together.ts";
import { cidOf, digestOf } from "./cid.ts";
import type { Cas } from "./contract.ts";

/** Salted bytes: text or noise, which is the same for the same name within a run. */
function source(salt: string): Bench["bytes"] {
  return (name, length = 100, dense = false) => {
    const seed = new TextEncoder().encode(`${salt} ${name} ${length} ${dense}\n`);
    const data = new Uint8Array(Math.max(1, length));
    let state = digestOf(cidOf(seed)).reduce((sum, byte) => (sum * 31 + byte) | 0, 7);
    for (let i = 0; i < data.length; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) | 0;
      data[i] = dense ? state >>> 24 : 97 + (state >>> 29);
    }
    data.set(seed.subarray(0, data.length));
    return data;
  };
}

function rulesFor(options: CheckOptions): Rule[] {
  return [
    ...ABSENCE,
    ...SMALL,
    ...LARGE,
    ...LIMITS,
    ...TOGETHER,
    ...OPTIONAL,
    ...(options.again === undefined ? [] : SHARED),
    ...(options.damage === undefined ? [] : DAMAGE_RULES),
    ...(options.outage === undefined ? [] : OUTAGE),
  ];
}

/** How a store did by one rule of its contract. */
export interface RuleOutcome {
  readonly rule: string;
  readonly kept: boolean;
  /** What was thrown, when something was. */
  readonly error: unknown;
}

/** How the store that `open` opens does by each rule of the contract, one after another. */
export async function* casRules(
  open: () => Promise<Cas>,
  options: CheckOptions,
): AsyncGenerator<RuleOutcome, void, undefined> {
  const bench: Bench = { ...options, cas: await open(), bytes: source(crypto.randomUUID()) };
  for (const [rule, keeps] of rulesFor(options)) {
    let error: unknown;
    const kept = await keeps(bench).catch((thrown) => {
      error = thrown;
      return false;
    });
    yield { rule, kept, error };
  }
}

/**
 * Check that the store that `open` opens keeps the contract. Throws `failed` with the first rule that it breaks.
 */
export async function checkCas(open: () => Promise<Cas>, options: CheckOptions): Promise<void> {
  for await (const { rule, kept, error } of casRules(open, options)) {
    if (kept) continue;
    const why = error === undefined ? "" : `: ${messageOf(error)}`;
    throw new SubletError("failed", `the store breaks a rule of its contract: ${rule}${why}`, {
      cause: error,
    });
  }
}
