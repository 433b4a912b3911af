/** @module The rules of a store's contract about limits, and about transfers that fail. */

import { messageOf } from "../home/mod.ts";
import { fails, inPieces, type Rule } from "./check_kit.ts";
import { cidOf, digestOf, drislCid } from "./cid.ts";
import type { Cas, Cid, Limits } from "./contract.ts";
import { collect, streamOf } from "./streams.ts";

async function readAll(cas: Cas, cid: Cid, limits: Limits) {
  const body = await cas.getStream(cid, limits);
  return body === null ? null : await collect(body.stream);
}

/** About limits, and about transfers that fail. */
export const LIMITS: readonly Rule[] = [
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
