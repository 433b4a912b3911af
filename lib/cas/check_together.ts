/** @module The rules of a store's contract about many calls at once. */

import { inPieces, type Rule, same } from "./check_kit.ts";
import { cidOf } from "./cid.ts";

/** About many calls at once. */
export const TOGETHER: readonly Rule[] = [
  ["many puts of one blob at once all succeed", async ({ cas, bytes, leftovers }) => {
    for (const data of [bytes("race", 500), bytes("large race", 400_000, true)]) {
      const put = () => cas.putStream(inPieces(data, 30_000), { expectedCid: cidOf(data) });
      await Promise.all(Array.from({ length: 20 }, put));
      if (!same(await cas.get(cidOf(data)), data)) return false;
    }
    return (await leftovers?.() ?? []).length === 0;
  }],
  ["puts and gets of many blobs at once do not disturb each other", async ({ cas, bytes }) => {
    const blobs = Array.from({ length: 60 }, (_, i) => bytes(`many ${i}`, 50 * i * i, i % 2 === 0));
    const cids = await Promise.all(blobs.map((blob) => cas.put(blob)));
    const got = await Promise.all(cids.map((cid) => cas.get(cid)));
    return got.every((bytes, i) => same(bytes, blobs[i] ?? new Uint8Array(0)));
  }],
];
