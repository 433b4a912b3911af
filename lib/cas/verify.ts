/** @module Streams that check themselves: damaged bytes are never delivered to the end. */

import { messageOf, SubletError } from "../home/mod.ts";
import { blake3, createHasher } from "./blake3.ts";
import { cidOfDigest, sameBlob } from "./cid.ts";
import type { Cid, Limits } from "./contract.ts";
import { checkCancelled, checkGrowth, checkLength } from "./limits.ts";

/** Bytes of a blob that are not those of its address. */
export function damagedBlob(cid: Cid, why: string, cause?: unknown): SubletError {
  return new SubletError(
    "integrity",
    `blob ${cid} is damaged: ${why}. Put it again from another copy, which repairs it`,
    { cause },
  );
}

/** An error of decoding or reading `cid`, with the address in its message. */
export function blobError(cid: Cid, error: unknown): unknown {
  if (!(error instanceof SubletError) || error.message.includes(cid)) return error;
  if (error.code === "integrity") return damagedBlob(cid, error.message, error);
  return new SubletError(error.code, `blob ${cid}: ${messageOf(error)}`, { cause: error });
}

/** `data`, if it is the blob `cid`. Throws `integrity` otherwise. */
export function checkWhole(cid: Cid, data: Uint8Array): void {
  const found = cidOfDigest(blake3(data));
  if (!sameBlob(found, cid)) throw damagedBlob(cid, `its bytes hash to ${found}`);
}

/** What a checked blob came to. */
export type OnChecked = (length: number) => void;

/**
 * The pieces of `source`, which must be the blob `cid`. Each piece is held back until the next one is there, and the
 * last until the whole is checked: for damaged bytes it throws `integrity` instead of delivering the last piece.
 */
export async function* verified(
  cid: Cid,
  source: AsyncIterable<Uint8Array>,
  limits: Limits = {},
  onChecked?: OnChecked,
): AsyncGenerator<Uint8Array, void, undefined> {
  const hasher = createHasher();
  let length = 0;
  let held: Uint8Array | null = null;
  try {
    for await (const bytes of source) {
      checkCancelled(limits);
      if (bytes.length === 0) continue;
      length += bytes.length;
      checkGrowth(length, limits, cid);
      hasher.update(bytes);
      if (held !== null) yield held;
      held = bytes;
    }
    const found = cidOfDigest(hasher.digest());
    if (!sameBlob(found, cid)) throw damagedBlob(cid, `its bytes hash to ${found}`);
    checkLength(length, limits, cid);
  } catch (error) {
    throw blobError(cid, error);
  }
  onChecked?.(length);
  if (held !== null) yield held;
}
