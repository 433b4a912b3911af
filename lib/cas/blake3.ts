/** @module BLAKE3 (https://github.com/BLAKE3-team/BLAKE3): the plain 256-bit hash, one-shot and streaming. */

import { createBLAKE3 } from "hash-wasm";

const hasher = await createBLAKE3();

/** The 32-byte BLAKE3 digest of `bytes`. */
export function blake3(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  hasher.init();
  hasher.update(bytes);
  return hasher.digest("binary").slice() as Uint8Array<ArrayBuffer>;
}
