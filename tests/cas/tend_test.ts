/** @module Tests of the upkeep of a store that stays open. */

import assert from "node:assert/strict";
import { openDisk, openMemory, tend } from "../../lib/cas/mod.ts";
import { nullLog, systemClock } from "../../lib/home/mod.ts";
import { Upkeeper } from "../../lib/cas/cached_upkeep.ts";
import { TempDir, until } from "../kit/mod.ts";

Deno.test("a store that stays open is swept while it does, and no more after that", async () => {
  await using scratch = await TempDir.make();
  await using cas = await openDisk({ path: scratch.path, sweepAfterMs: 0 });
  const crash = scratch.join("tmp/crash");
  await Deno.writeTextFile(crash, "left");
  let runs = 0;
  const run = async () => {
    await cas.sweep();
    runs++;
  };
  {
    const options = { maxBytes: null, firstMs: 1, everyMs: 1, clock: systemClock, log: nullLog };
    await using _upkeep = new Upkeeper({ run, ...options });
    await until("it was swept twice", () => Promise.resolve(runs > 1));
  }
  await assert.rejects(Deno.stat(crash), Deno.errors.NotFound);
  const before = runs;
  await using _none = tend(openMemory(), nullLog);
  assert.equal(runs, before);
});
