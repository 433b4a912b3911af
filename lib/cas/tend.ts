/** @module The upkeep of a store that a long-running process has open: what crashes of others left in it goes. */

import { type Clock, type Log, systemClock } from "../home/mod.ts";
import { Upkeeper } from "./cached_upkeep.ts";
import type { Cas, Collectable } from "./contract.ts";

/** Milliseconds from the beginning to the first sweep, and from one to the next: each looks at all that there is. */
const FIRST_MS = 60 * 60 * 1000;
const EVERY_MS = 24 * 60 * 60 * 1000;

/** Sweep `cas` once a day, until it is disposed. A store that is elsewhere is swept there. */
export function tend(
  cas: Cas & Partial<Collectable>,
  log: Log,
  clock: Clock = systemClock,
): AsyncDisposable {
  if (cas.sweep === undefined) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  const run = async () => {
    const { count, bytes } = await cas.sweep?.() ?? { count: 0, bytes: 0 };
    if (count > 0) log.event("cas.swept", { count, bytes });
  };
  return new Upkeeper({ run, maxBytes: null, firstMs: FIRST_MS, everyMs: EVERY_MS, clock, log });
}
