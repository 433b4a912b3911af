/** @module Uploads that end before they should: whose fault it is. */

import { messageOf, SubletError } from "../home/mod.ts";
import type { Cid } from "./contract.ts";
import type { Transfer } from "./http_limits.ts";

/** The sender went away, or sent less than it announced: its mistake, not ours. */
export function brokenOff(cid: Cid, error: unknown): SubletError {
  return new SubletError(
    "invalid_request",
    `the upload of blob ${cid} broke off: ${messageOf(error)}. Send it again`,
    { cause: error },
  );
}

/** What `work` gives. A body that broke off is the sender's mistake, and one that stalled is late. */
export async function orBrokenOff<T>(
  cid: Cid,
  transfer: Pick<Transfer, "signal">,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SubletError)) throw error;
    if (error.code === "cancelled" && transfer.signal.aborted) throw transfer.signal.reason;
    // That of a body that could not be read to its end; see `drain`.
    if (error.code === "failed" && !(error.cause instanceof SubletError)) {
      throw brokenOff(cid, error.cause ?? error);
    }
    throw error;
  }
}
