/** @module The links in a value of DASL. */

import { isDrisl } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { type Drisl, Link } from "./drisl.ts";
import { decodeDrisl } from "./drisl_decode.ts";

/** Every link in the value of `bytes`. Those to values are to be followed, those to files are not. Throws `integrity`. */
export function linksIn(bytes: Uint8Array): { cid: Cid; leaf: boolean }[] {
  const found: { cid: Cid; leaf: boolean }[] = [];
  const waiting: Drisl[] = [decodeDrisl(bytes)];
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    if (value instanceof Link) found.push({ cid: value.cid, leaf: !isDrisl(value.cid) });
    else if (Array.isArray(value)) { for (const item of value) waiting.push(item); }
    else if (typeof value === "object" && value !== null && !(value instanceof Uint8Array)) {
      for (const item of Object.values(value)) waiting.push(item);
    }
  }
  return found;
}

/** Whether text that starts so may be JSON with names of blobs in it. */
export function mayBeJson(start: string): boolean {
  return start.startsWith("{") || start.startsWith("[") || start.startsWith('"');
}
