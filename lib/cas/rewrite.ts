/** @module A blob whose object can be read and is to be written anew. */

import type { Cas, Cid } from "./contract.ts";

/** Store the blob once more, from what `store` has of it: a put writes anew what a check calls altered. */
export async function rewrite(store: Cas, cid: Cid): Promise<void> {
  const body = await store.getStream(cid);
  if (body !== null) await store.putStream(body.stream, { expectedCid: cid });
}
