/** @module What a worker may take: the slots of its pool, and the thresholds that keep jobs off a busy host. */

import type { HostSample } from "./wire.ts";

/** What slots count for. */
export type Slots = "agents" | "evaluations";

/** The two classes, in the order in which an acquire looks at them. */
export const SLOTS: readonly Slots[] = ["agents", "evaluations"];

/** The capacity of each worker of a pool. Null or absent: no bound. A GB is 10^9 bytes, load is per CPU. */
export interface Pool {
  readonly agents?: number | null | undefined;
  readonly evaluations?: number | null | undefined;
  readonly min_memory_gb?: number | null | undefined;
  readonly max_load?: number | null | undefined;
}

/** Why the host itself keeps every job off, or null. */
export function pressure(pool: Pool, sample: HostSample): "memory" | "load" | null {
  const { min_memory_gb: memory, max_load: load } = pool;
  if (typeof memory === "number" && sample.memory_available < memory * 1e9) return "memory";
  if (typeof load === "number" && sample.load1 > load * sample.cpus) return "load";
  return null;
}

/** Whether a worker that runs `live` jobs of the class `slots` has none free. */
export function isFull(pool: Pool, slots: Slots, live: number): boolean {
  const bound = pool[slots];
  return typeof bound === "number" && live >= bound;
}
