/** @module What is tried again while the store or the server is away for a moment. */

import { isError, isHostFault, messageOf } from "../home/mod.ts";
import type { JobControl, Site } from "./runner.ts";

/** How often it is tried, and the first wait; each doubles. */
const ATTEMPTS = 6;
const FIRST_WAIT_MS = 500;

/** Whether another try may help: nobody answered, and this machine is well. */
export function isAway(error: unknown): boolean {
  return isError(error, "unavailable", "unreachable", "busy") && !isHostFault(error);
}

/** Do `work`, and again while the store or the server is away, a few times; `event` is logged each time. */
export async function retryAway<T>(
  site: Site,
  control: JobControl,
  event: string,
  work: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1;; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isAway(error) || attempt === ATTEMPTS || control.stop.aborted) throw error;
      site.log.event(event, { lease: control.lease, error: messageOf(error) });
      await site.clock.sleep(FIRST_WAIT_MS * 2 ** (attempt - 1), control.stop);
      control.stop.throwIfAborted();
    }
  }
}
