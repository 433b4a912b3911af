/**
 * @module DRISL (https://dasl.ing/drisl.html), the deterministic CBOR of manifests: the part that they use.
 *
 * Integers fit 64 signed bits, text is UTF-8, maps have text keys in order of encoded length and then of bytes, links
 * are tag 42 over `00` and the CID's bytes, every length is definite and in its shortest form, and there are no floats.
 */

import { SubletError } from "../home/mod.ts";
import type { Cid } from "./contract.ts";

/** A link to a blob. */
export class Link {
  constructor(readonly cid: Cid) {}
}

/** A value of DRISL. An integer beyond 2^53 is a bigint. */
export type Drisl =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Link
  | Drisl[]
  | { [key: string]: Drisl };

/** How deep a value may be nested. */
export const MAX_DEPTH = 126;
/** The largest integer; the smallest is one below its negative. */
export const MAX_INT = 2n ** 63n - 1n;
/** The tag of a link. */
export const LINK_TAG = 42;

/** The error for bytes that are no canonical DRISL, and for values that it cannot hold. */
export function malformed(reason: string): SubletError {
  return new SubletError(
    "integrity",
    `the bytes are no DRISL value: ${reason}. Store the value again with a tool that writes canonical DRISL`,
  );
}

/** Order of map keys: by the length of their UTF-8, then by its bytes. */
export function compareKeys(a: Uint8Array, b: Uint8Array): number {
  return a.length - b.length || compareBytes(a, b);
}

/** Order of byte strings; that of UTF-8 is the order of code points. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
