/** @module The heartbeat period of a large fleet: it grows, so that the server's work does not. */

import type { Timing } from "./wire.ts";

/** How many heartbeats a second a fleet may send before its period grows. */
const BEATS_PER_SECOND = 500;
/** Heartbeats of a worker within the grace period, at least: one that is lost makes nobody unreachable. */
const BEATS_IN_GRACE = 3;
/** Of what the inequality leaves; beyond it a worker would stop its jobs before it counts as unreachable. */
const SAFE = 0.9;

/**
 * The timing that a worker learns when it registers as one of `workers`. Only `renew` differs from the configured one,
 * and renew < grace < toleration - 2 renew still holds.
 */
export function fleetTiming(timing: Timing, workers: number): Timing {
  const { renew, grace, toleration } = timing;
  const most = Math.min(grace / BEATS_IN_GRACE, (toleration - grace) / 2 * SAFE);
  const wanted = Math.min(workers / BEATS_PER_SECOND, most);
  return wanted <= renew ? timing : { ...timing, renew: wanted };
}
