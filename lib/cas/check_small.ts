/** @module The rules of a store's contract about absence, and about blobs in memory. */

import { type Rule, same } from "./check_kit.ts";
import { cidOf, digestOf, drislCid } from "./cid.ts";
import { collect, streamOf } from "./streams.ts";

const exists = (path: string) => Deno.stat(path).then(() => true, () => false);

/** About blobs that are not there. */
export const ABSENCE: readonly Rule[] = [
  ["a blob that was never put is not there", async ({ cas, bytes }) => {
    return !await cas.has(cidOf(bytes("absent")));
  }],
  ["a get of an absent blob is null", async ({ cas, bytes }) => {
    const cid = cidOf(bytes("absent"));
    return await cas.get(cid) === null && await cas.getStream(cid) === null;
  }],
  ["getFile of an absent blob is null and leaves the file as it is", async (bench) => {
    const [fresh, old] = [`${bench.scratch}/absent`, `${bench.scratch}/old`];
    await Deno.writeTextFile(old, "old");
    const cid = cidOf(bench.bytes("absent"));
    return await bench.cas.getFile(cid, fresh) === null && !await exists(fresh) &&
      await bench.cas.getFile(cid, old) === null && await Deno.readTextFile(old) === "old";
  }],
];

/** About blobs that are put from memory. */
export const SMALL: readonly Rule[] = [
  ["put returns the raw CID, and again for the same bytes", async ({ cas, bytes }) => {
    const data = bytes("twice", 14_000);
    return await cas.put(data) === cidOf(data) && await cas.put(data) === cidOf(data);
  }],
  ["what was put is there and reads back", async ({ cas, bytes }) => {
    for (const length of [1, 100, 4000, 4100, 20_000, 65_536, 65_537, 140_000]) {
      for (const dense of [false, true]) {
        const data = bytes(`size ${length}`, length, dense);
        const cid = await cas.put(data);
        if (!await cas.has(cid) || !same(await cas.get(cid), data)) return false;
      }
    }
    return true;
  }],
  ["the store keeps its own copy of what was put", async ({ cas, bytes }) => {
    const data = bytes("changed later", 200);
    const before = data.slice();
    const cid = await cas.put(data);
    data.fill(0);
    const got = await cas.get(cid);
    const first = same(got, before);
    got?.fill(1);
    return first && same(await cas.get(cid), before);
  }],
  ["missing keeps order and repeats", async ({ cas, bytes }) => {
    const [absent, other] = [cidOf(bytes("absent")), cidOf(bytes("also absent"))];
    const present = await cas.put(bytes("present"));
    const found = await cas.missing([absent, present, other, absent]);
    return JSON.stringify(found) === JSON.stringify([absent, other, absent]) &&
      (await cas.missing([])).length === 0;
  }],
  ["missing takes a question of thousands", async ({ cas, bytes }) => {
    const absent = Array.from({ length: 3000 }, (_, i) => cidOf(bytes(`absent ${i}`)));
    const present = await cas.put(bytes("among thousands"));
    const found = await cas.missing([...absent.slice(0, 1500), present, ...absent.slice(1500)]);
    return JSON.stringify(found) === JSON.stringify(absent);
  }],
  ["a blob is found by its digest, whatever the codec", async ({ cas, bytes }) => {
    const data = bytes("by digest");
    const cid = drislCid(digestOf(await cas.put(data)));
    return await cas.has(cid) && same(await cas.get(cid), data) &&
      (await cas.missing([cid])).length === 0;
  }],
  ["the empty blob is a blob", async ({ cas, scratch }) => {
    const cid = await cas.put(new Uint8Array(0));
    const stream = await cas.getStream(cid);
    return cid === cidOf(new Uint8Array(0)) && (await cas.get(cid))?.length === 0 &&
      stream !== null && (await collect(stream.stream)).length === 0 &&
      await cas.getFile(cid, `${scratch}/empty`) === 0 &&
      await cas.putStream(streamOf(new Uint8Array(0))) === cid;
  }],
];
