/** @module The rules of a store's contract about files and streams. */

import { fails, inPieces, namesIn, type Rule, same } from "./check_kit.ts";
import { isError } from "../home/mod.ts";
import { cidOf } from "./cid.ts";
import { collect } from "./streams.ts";

/** About files and streams. */
export const LARGE: readonly Rule[] = [
  ["putFile stores a file of some MiB", async ({ cas, bytes, scratch }) => {
    const data = bytes("file", (3 << 20) + 16, true);
    await Deno.writeFile(`${scratch}/source`, data);
    const cid = await cas.putFile(`${scratch}/source`);
    return cid === cidOf(data) && same(await cas.get(cid), data);
  }],
  ["putFile of a file that is not there fails with not_found", async ({ cas, scratch }) => {
    return await fails(cas.putFile(`${scratch}/nothing`), "not_found");
  }],
  [
    "a file that changes while it is put is stored in one of its states, or refused",
    async (bench) => {
      const { cas, scratch } = bench;
      const path = `${scratch}/changes`;
      const data = bench.bytes("changes", 3 << 20, true);
      await Deno.writeFile(path, data);
      const put = cas.putFile(path).then((cid) => cid, (error) => {
        const refused = ["integrity", "cid_mismatch", "invalid_request", "failed"] as const;
        if (isError(error, ...refused, "unavailable", "unreachable")) return null;
        throw error;
      });
      for (let i = 0; i < 20; i++) {
        await Deno.writeFile(
          path,
          data.subarray(0, data.length - i * 9),
        );
      }
      const cid = await put;
      // Whatever it read is what its address says: a get checks that.
      return cid === null || await cas.get(cid) !== null;
    },
  ],
  ["getFile returns the length and replaces what was there", async ({ cas, bytes, scratch }) => {
    const data = bytes("to a file", 300_000);
    await Deno.writeTextFile(`${scratch}/target`, "old");
    const length = await cas.getFile(await cas.put(data), `${scratch}/target`);
    return length === data.length && same(await Deno.readFile(`${scratch}/target`), data);
  }],
  ["getFile to where no file can be fails, and leaves nothing behind", async (bench) => {
    const { cas, scratch } = bench;
    const cid = await cas.put(bench.bytes("nowhere", 200_000, true));
    await Deno.mkdir(`${scratch}/directory`, { recursive: true });
    const before = await namesIn(scratch);
    return await fails(cas.getFile(cid, `${scratch}/no/such/directory/file`), "not_found") &&
      await fails(cas.getFile(cid, `${scratch}/directory`), "unavailable") &&
      (await namesIn(scratch)).join() === before.join() &&
      (await namesIn(`${scratch}/directory`)).length === 0;
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
