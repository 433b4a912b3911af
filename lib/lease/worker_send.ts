/** @module A job asks the server for versions that its worker's clone lacks. */

import { type Clock, type Ids, messageOf, SubletError } from "../home/mod.ts";
import type { Site } from "../job/mod.ts";
import type { LeaseClient } from "./client.ts";
import { isUnanswered } from "./worker_core.ts";
import { Backoff, within } from "./worker_time.ts";
import { MAX_POLL_SECONDS } from "./wire.ts";

/** How much longer than its own wait one long-poll may take. */
const GRACE_SECONDS = 30;

/**
 * {@linkcode Site.send} over `client`: asks until the server has put the versions into the CAS, through outages of any
 * length, until the job must stop (`cancelled`). Rejects with `not_sent` when the server cannot.
 */
export function sendOver(client: LeaseClient, clock: Clock, ids: Ids): Site["send"] {
  return async (repo, revisions, have, signal) => {
    const backoff = new Backoff(ids);
    while (true) {
      try {
        const blobs = await within(
          clock,
          (MAX_POLL_SECONDS + GRACE_SECONDS) * 1000,
          signal,
          "the transfer of versions",
          (own) => client.send(repo, revisions, have, MAX_POLL_SECONDS, own),
        );
        if (blobs !== null) return blobs;
        backoff.reset();
        // It still builds. One that answers so at once must not be asked in a tight loop.
        await clock.sleep(backoff.next(), signal);
      } catch (error) {
        if (signal.aborted) throw new SubletError("cancelled", messageOf(signal.reason));
        if (!isUnanswered(error)) throw error;
        await clock.sleep(backoff.next(), signal);
      }
      if (signal.aborted) throw new SubletError("cancelled", messageOf(signal.reason));
    }
  };
}
