/** @module The rules of a store's contract about what its blobs are kept in: it may fail, and others may use it. */

import { isError } from "../home/mod.ts";
import { inPieces, namesIn, type Rule, same } from "./check_kit.ts";
import { cidOf } from "./cid.ts";
import type { Cas, Evictable } from "./contract.ts";
import { collect } from "./streams.ts";

/** Whether `work` says that the store cannot be used now. */
async function isOut(work: Promise<unknown>): Promise<boolean> {
  return await work.then(() => false, (error) => isError(error, "unavailable", "unreachable"));
}

/** Of a store whose storage can be made to fail. */
export const OUTAGE: readonly Rule[] = [
  ["an outage is told as unavailable, never as absence, and ends", async (bench) => {
    const { cas, bytes, scratch, leftovers } = bench;
    const data = bytes("outage", 200_000, true);
    const cid = await cas.put(data);
    const fresh = bytes("put in an outage", 200_000, true);
    const before = await namesIn(scratch);
    {
      await using _outage = await bench.outage?.();
      const read = async () => {
        const body = await cas.getStream(cid);
        return body === null ? null : await collect(body.stream);
      };
      const told = await isOut(cas.has(cid)) && await isOut(cas.missing([cid])) &&
        await isOut(cas.get(cid)) && await isOut(read()) &&
        await isOut(cas.getFile(cid, `${scratch}/outage`)) &&
        await isOut(cas.put(bytes("small put in an outage"))) &&
        await isOut(cas.putStream(inPieces(fresh, 50_000)));
      if (!told || (await namesIn(scratch)).join() !== before.join()) return false;
    }
    return same(await cas.get(cid), data) && !await cas.has(cidOf(fresh)) &&
      await cas.put(fresh) === cidOf(fresh) && same(await cas.get(cidOf(fresh)), fresh) &&
      (await leftovers?.() ?? []).length === 0;
  }],
];

/** Of a store that several processes may use at once. */
export const SHARED: readonly Rule[] = [
  ["what one puts, another finds at once", async ({ cas, again, bytes }) => {
    const other = await again?.() ?? cas;
    for (const data of [bytes("shared"), bytes("shared", 300_000, true)]) {
      const cid = await cas.put(data);
      if (!await other.has(cid) || !same(await other.get(cid), data)) return false;
      if ((await other.missing([cid])).length > 0 || await other.put(data) !== cid) return false;
    }
    return true;
  }],
  ["two that put the same blobs at once both succeed", async ({ cas, again, bytes }) => {
    const other = await again?.() ?? cas;
    const blobs = Array.from({ length: 20 }, (_, i) => bytes(`both ${i}`, 30 * i * i, i % 2 === 0));
    const put = (store: Cas) =>
      Promise.all(blobs.map((data) => store.putStream(inPieces(data, 9_000))));
    const [ours, theirs] = await Promise.all([put(cas), put(other)]);
    for (const [i, data] of blobs.entries()) {
      if (ours[i] !== cidOf(data) || theirs[i] !== cidOf(data)) return false;
      if (!same(await cas.get(cidOf(data)), data)) return false;
    }
    return true;
  }],
  ["what one releases, another no longer finds", async ({ cas, again, bytes }) => {
    const other: Cas & Partial<Evictable> = await again?.() ?? cas;
    if (other.release === undefined) return true;
    const data = bytes("released by another", 300_000, true);
    const cid = await cas.put(data);
    return same(await cas.get(cid), data) && await other.release(cid) > 0 &&
      !await cas.has(cid) && await cas.get(cid) === null && await cas.put(data) === cid &&
      same(await other.get(cid), data);
  }],
];
