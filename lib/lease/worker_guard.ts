/** @module The silence guard: jobs stop before the server may give them to somebody else. */

import type { WorkerCore } from "./worker_core.ts";
import { markNow, since } from "./worker_time.ts";

/** How often it looks: a machine that wakes from a suspend stops its jobs within this time. */
const TICK_MS = 1_000;

/** Looks every second, and says every renew period that jobs which must stop still run. */
export async function guardLoop(core: WorkerCore): Promise<void> {
  const { clock, over: { signal } } = core;
  let said = markNow(clock);
  while (!signal.aborted) {
    const renewMs = core.timing.renew * 1000;
    await clock.sleep(Math.min(TICK_MS, renewMs / 2), signal);
    core.guard();
    if (since(clock, said) < renewMs) continue;
    said = markNow(clock);
    const stopping = [...core.held.values()]
      .filter((held) => held.phase === "running" && held.stopper.signal.aborted)
      .map((held) => held.lease);
    if (stopping.length > 0) core.log.event("worker.still_stopping", { leases: stopping });
  }
}
