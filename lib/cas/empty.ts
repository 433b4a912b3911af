/** @module The empty blob, which every store has, whether or not somebody put it: its bytes are known. */

import { cidOf, digestOf, drislCid } from "./cid.ts";
import type { Cid } from "./contract.ts";

/** The address of the empty blob. */
export const EMPTY: Cid = cidOf(new Uint8Array(0));

/** Its other address: a CID has one text. */
const EMPTY_VALUE: Cid = drislCid(digestOf(EMPTY));

/** Whether `cid` is an address of the empty blob. */
export function isEmpty(cid: Cid): boolean {
  return cid === EMPTY || cid === EMPTY_VALUE;
}

/** Its bytes. */
export function noBytes(): Uint8Array<ArrayBuffer> {
  return new Uint8Array(0);
}
