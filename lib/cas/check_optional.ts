/** @module The rules of a store's contract about what it need not have: parts, lengths, upkeep, eviction. */

import { type Rule, same } from "./check_kit.ts";
import { cidOf, sameBlob } from "./cid.ts";
import type { Cas, Cid, Evictable, Held, Ranged, Sized, Upkeep } from "./contract.ts";
import { collect } from "./streams.ts";

type Optional = Cas & Partial<Ranged & Sized & Upkeep & Evictable>;

async function includes(list: AsyncIterable<Cid>, cid: Cid): Promise<boolean> {
  for await (const found of list) if (sameBlob(found, cid)) return true;
  return false;
}

async function findHeld(list: AsyncIterable<Held>, cid: Cid): Promise<Held | null> {
  for await (const held of list) if (sameBlob(held.cid, cid)) return held;
  return null;
}

/** Each passes for a store that lacks what it is about. */
export const OPTIONAL: readonly Rule[] = [
  ["a part of a blob is what Array.slice gives", async ({ cas, bytes }) => {
    const store: Optional = cas;
    if (store.getRange === undefined) return true;
    for (const dense of [false, true]) {
      const data = bytes("parts", 300_000, dense);
      const cid = await cas.put(data);
      for (
        const [from, to] of [[0, 0], [0, 1], [131_070, 262_146], [299_990, undefined]] as const
      ) {
        const body = await store.getRange(cid, from, to);
        if (body === null || body.length !== data.length) return false;
        if (!same(await collect(body.stream), data.slice(from, to))) return false;
      }
    }
    return await store.getRange(cidOf(bytes("absent")), 0, 1) === null;
  }],
  ["the length of a blob is told, checked or not", async ({ cas, bytes }) => {
    const store: Optional = cas;
    if (store.sizeOf === undefined) return true;
    for (const data of [bytes("short"), bytes("long", 300_000), bytes("dense", 300_000, true)]) {
      const cid = await cas.put(data);
      if (await store.sizeOf(cid) !== data.length) return false;
      if (await store.sizeOf(cid, { check: true }) !== data.length) return false;
    }
    const absent = cidOf(bytes("absent"));
    return await store.sizeOf(absent) === null &&
      await store.sizeOf(absent, { check: true }) === null;
  }],
  ["what was put is listed, counted and found whole", async ({ cas, bytes }) => {
    const store: Optional = cas;
    if (store.list === undefined || store.usage === undefined || store.integrity === undefined) {
      return true;
    }
    const before = await store.usage();
    const data = bytes("listed", 20_000);
    const cid = await cas.put(data);
    await cas.put(data);
    const after = await store.usage();
    // Of a store of tiers they may be on another machine.
    const grown = after.bytes > before.bytes || after.tiers !== undefined;
    return after.blobs > before.blobs && grown &&
      await includes(store.list(), cid) && await store.integrity(cid) === "ok" &&
      await store.integrity(cidOf(bytes("absent"))) === "missing";
  }],
  ["what is released is gone, until it is put again", async ({ cas, bytes }) => {
    const store: Optional = cas;
    if (store.release === undefined || store.held === undefined) return true;
    for (const data of [bytes("released"), bytes("released", 300_000, true)]) {
      const cid = await cas.put(data);
      const found = await findHeld(store.held(), cid);
      if (found === null || found.bytes <= 0 || !(found.storedAt > 0)) return false;
      if (await store.release(cid) !== found.bytes || await store.release(cid) !== 0) return false;
      if (await cas.has(cid) || await cas.get(cid) !== null) return false;
      if (await cas.put(data) !== cid || !same(await cas.get(cid), data)) return false;
    }
    return await store.release(cidOf(bytes("absent"))) === 0;
  }],
];
