/** @module How much a store holds, where only a look at everything tells. */

import type { Held, Usage } from "./contract.ts";

/** The number and the bytes of what is `held`. */
export async function usageOf(held: AsyncIterable<Held>): Promise<Usage> {
  let blobs = 0;
  let bytes = 0;
  for await (const one of held) {
    blobs++;
    bytes += one.bytes;
  }
  return { blobs, bytes };
}
