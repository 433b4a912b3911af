/** @module The bounds of a transfer, checked while its bytes pass. */

import { SubletError } from "../home/mod.ts";
import { sameBlob } from "./cid.ts";
import type { Cid, Limits } from "./contract.ts";

/** How a transfer is named in messages: its CID when it is known beforehand. */
export function named(limits: Limits, cid?: Cid): string {
  const known = cid ?? limits.expectedCid;
  return known === undefined ? "the blob" : `blob ${known}`;
}

/** Throws `too_large` or `invalid_request` when `length` bytes so far already break `limits`. */
export function checkGrowth(length: number, limits: Limits, cid?: Cid): void {
  if (limits.maxBytes !== undefined && length > limits.maxBytes) {
    throw new SubletError(
      "too_large",
      `${
        named(limits, cid)
      } has more than the ${limits.maxBytes} bytes allowed. Raise the limit or split it`,
    );
  }
  if (limits.expectedLength !== undefined && length > limits.expectedLength) {
    throw wrongLength(`more than ${limits.expectedLength}`, limits, cid);
  }
}

/** Throws `too_large` or `invalid_request` when a blob of exactly `length` bytes breaks `limits`. */
export function checkLength(length: number, limits: Limits, cid?: Cid): void {
  checkGrowth(length, limits, cid);
  if (limits.expectedLength !== undefined && length !== limits.expectedLength) {
    throw wrongLength(String(length), limits, cid);
  }
}

function wrongLength(found: string, limits: Limits, cid?: Cid): SubletError {
  return new SubletError(
    "invalid_request",
    `${
      named(limits, cid)
    } has ${found} bytes, not the ${limits.expectedLength} that were announced. Send it whole, ` +
      "once",
  );
}

/** Throws `cid_mismatch` when `limits` expects another address than `cid`. */
export function checkAddress(cid: Cid, limits: Limits): void {
  const expected = limits.expectedCid;
  if (expected !== undefined && !sameBlob(expected, cid)) {
    throw new SubletError(
      "cid_mismatch",
      `the bytes that were sent for ${expected} hash to ${cid}. Nothing was stored: send the right bytes, or the ` +
        "right address",
    );
  }
}

/** Throws `cancelled` when the transfer's signal has fired. */
export function checkCancelled(limits: Limits): void {
  if (limits.signal?.aborted) {
    throw new SubletError("cancelled", `the transfer of ${named(limits)} was cancelled`, {
      cause: limits.signal.reason,
    });
  }
}
