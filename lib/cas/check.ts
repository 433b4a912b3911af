/**
 * @module The contract of a store, as a suite that every provider passes, our fakes included.
 *
 * All blobs are salted, so it may run on a store that is in use; it leaves a few MiB there.
 */

import { messageOf, SubletError } from "../home/mod.ts";
import { cidOf, digestOf, drislCid } from "./cid.ts";
import { DAMAGE_RULES } from "./check_damage.ts";
import { type Bench, type CheckOptions, fails, inPieces, type Rule, same } from "./check_kit.ts";
import type { Cas, Cid, Limits } from "./contract.ts";
import { collect, streamOf } from "./streams.ts";

const exists = (path: string) => Deno.stat(path).then(() => true, () => false);

const ABSENCE: Rule[] = [
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

const SMALL: Rule[] = [
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

const LARGE: Rule[] = [
  ["putFile stores a file of some MiB", async ({ cas, bytes, scratch }) => {
    const data = bytes("file", (3 << 20) + 16, true);
    await Deno.writeFile(`${scratch}/source`, data);
    const cid = await cas.putFile(`${scratch}/source`);
    return cid === cidOf(data) && same(await cas.get(cid), data);
  }],
  ["putFile of a file that is not there fails with not_found", async ({ cas, scratch }) => {
    return await fails(cas.putFile(`${scratch}/nothing`), "not_found");
  }],
  ["getFile returns the length and replaces what was there", async ({ cas, bytes, scratch }) => {
    const data = bytes("to a file", 300_000);
    await Deno.writeTextFile(`${scratch}/target`, "old");
    const length = await cas.getFile(await cas.put(data), `${scratch}/target`);
    return length === data.length && same(await Deno.readFile(`${scratch}/target`), data);
  }],
  ["a file that getFile wrote may be read by all", async ({ cas, bytes, scratch }) => {
    await cas.getFile(await cas.put(bytes("mode")), `${scratch}/mode`);
    const { mode } = await Deno.stat(`${scratch}/mode`);
    return Deno.build.os === "windows" || ((mode ?? 0) & 0o777) === (0o644 & ~Deno.umask());
  }],
  ["a stream is stored whole, however it is cut", async ({ cas, bytes }) => {
    for (
      const [length, piece] of [[2 << 20, 65_536], [700_001, 777], [131_072, 131_072]] as const
    ) {
      for (const dense of [false, true]) {
        const data = bytes(`stream ${length}`, length, dense);
        const limits = { expectedLength: data.length, maxBytes: data.length };
        const cid = await cas.putStream(inPieces(data, piece), limits);
        if (cid !== cidOf(data) || !same(await cas.get(cid), data)) return false;
      }
    }
    return true;
  }],
  ["a stream of the blob tells its length and delivers its bytes", async ({ cas, bytes }) => {
    const data = bytes("as a stream", 1_500_000, true);
    const limits = { expectedLength: data.length, maxBytes: data.length };
    const body = await cas.getStream(await cas.put(data), limits);
    return body !== null && (body.length === null || body.length === data.length) &&
      same(await collect(body.stream), data);
  }],
  ["a stream that is cancelled early does no harm", async ({ cas, bytes }) => {
    const data = bytes("cancelled", 1_500_000, true);
    const cid = await cas.put(data);
    await (await cas.getStream(cid))?.stream.cancel();
    const reader = (await cas.getStream(cid))?.stream.getReader();
    await reader?.read();
    await reader?.cancel();
    return same(await cas.get(cid), data);
  }],
];

const LIMITS: Rule[] = [
  ["a get of more than maxBytes fails with too_large", async ({ cas, bytes }) => {
    for (const length of [1000, 300_000]) {
      const data = bytes("large get", length);
      const cid = await cas.put(data);
      if (!await fails(readAll(cas, cid, { maxBytes: data.length - 1 }), "too_large")) return false;
    }
    return true;
  }],
  ["a get of another length than expected fails with invalid_request", async ({ cas, bytes }) => {
    const data = bytes("other length", 1000);
    const cid = await cas.put(data);
    return await fails(readAll(cas, cid, { expectedLength: data.length + 1 }), "invalid_request") &&
      await fails(readAll(cas, cid, { expectedLength: data.length - 1 }), "invalid_request");
  }],
  ["a refused put stores nothing and leaves nothing behind", async ({ cas, bytes, leftovers }) => {
    for (const length of [1000, 300_000]) {
      const data = bytes("refused", length, true);
      const put = (limits: Limits) => cas.putStream(inPieces(data, 10_000), limits);
      const kept = await fails(put({ expectedLength: data.length + 1 }), "invalid_request") &&
        await fails(put({ expectedLength: data.length - 1 }), "invalid_request") &&
        await fails(put({ maxBytes: 1 }), "too_large") &&
        await fails(put({ maxBytes: data.length - 1 }), "too_large") &&
        await fails(put({ expectedCid: cidOf(bytes("other")) }), "cid_mismatch") &&
        await fails(cas.put(data, { expectedCid: cidOf(bytes("other")) }), "cid_mismatch") &&
        await fails(put({ signal: AbortSignal.abort() }), "cancelled");
      if (!kept || await cas.has(cidOf(data))) return false;
    }
    return (await leftovers?.() ?? []).length === 0;
  }],
  ["a put of the expected blob by either codec succeeds", async ({ cas, bytes }) => {
    const data = bytes("expected", 300_000);
    const drisl = drislCid(digestOf(cidOf(data)));
    return await cas.putStream(streamOf(data), { expectedCid: drisl }) === cidOf(data) &&
      await cas.putStream(streamOf(data), { expectedCid: cidOf(data) }) === cidOf(data);
  }],
  ["a source that breaks off stores nothing, and its error is told", async (bench) => {
    const data = bench.bytes("breaks off", 300_000);
    let at = 0;
    const source = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (at < data.length) controller.enqueue(data.slice(at, at += 50_000));
        else controller.error(new Error("the sender went away"));
      },
    });
    const failed = await bench.cas.putStream(source).then(() => "", messageOf);
    return failed.includes("the sender went away") && !await bench.cas.has(cidOf(data)) &&
      (await bench.leftovers?.() ?? []).length === 0;
  }],
  ["a put that is cancelled midway stops, and cancels its source", async (bench) => {
    const stop = new AbortController();
    let cancelled = false;
    const source = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(bench.bytes("cancelled midway", 100_000)),
      pull: () => stop.abort(),
      cancel: () => void (cancelled = true),
    });
    const put = bench.cas.putStream(source, { signal: stop.signal });
    return await fails(put, "cancelled") && cancelled;
  }],
];

const TOGETHER: Rule[] = [
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

async function readAll(cas: Cas, cid: Cid, limits: Limits) {
  const body = await cas.getStream(cid, limits);
  return body === null ? null : await collect(body.stream);
}

/** Salted bytes: text or noise, which is the same for the same name within a run. */
function source(salt: string): Bench["bytes"] {
  return (name, length = 100, dense = false) => {
    const seed = new TextEncoder().encode(`${salt} ${name} ${length} ${dense}\n`);
    const data = new Uint8Array(Math.max(1, length));
    let state = digestOf(cidOf(seed)).reduce((sum, byte) => (sum * 31 + byte) | 0, 7);
    for (let i = 0; i < data.length; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) | 0;
      data[i] = dense ? state >>> 24 : 97 + (state >>> 29);
    }
    data.set(seed.subarray(0, data.length));
    return data;
  };
}

/**
 * Check that the store that `open` opens keeps the contract. Throws `failed` with the first rule that it breaks.
 */
export async function checkCas(open: () => Promise<Cas>, options: CheckOptions): Promise<void> {
  const cas = await open();
  const bench: Bench = { ...options, cas, bytes: source(crypto.randomUUID()) };
  const damaging = options.damage === undefined ? [] : DAMAGE_RULES;
  for (
    const [rule, keeps] of [...ABSENCE, ...SMALL, ...LARGE, ...LIMITS, ...TOGETHER, ...damaging]
  ) {
    let broken: unknown;
    const kept = await keeps(bench).catch((error) => {
      broken = error;
      return false;
    });
    if (kept) continue;
    const why = broken === undefined ? "" : `: ${messageOf(broken)}`;
    throw new SubletError("failed", `the store breaks a rule of its contract: ${rule}${why}`, {
      cause: broken,
    });
  }
}
