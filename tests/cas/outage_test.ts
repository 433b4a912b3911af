/** @module Stores whose storage fails for a while: the contract over HTTP, and of a cache. */

import { checkCas, openDisk, openHttpCas } from "../../lib/cas/mod.ts";
import { type Clock, systemClock } from "../../lib/home/mod.ts";
import { openHttpClient } from "../../lib/net/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { openCache, tiersIn } from "./cached_kit.ts";
import { leftovers, takeAway } from "./disk_kit.ts";
import { serveStore } from "./http_kit.ts";

/** A clock that passes over its sleeps. */
function hurried(): Clock {
  let ahead = 0;
  return {
    ...systemClock,
    monotonic: () => systemClock.monotonic() + ahead,
    sleep(ms) {
      ahead += ms;
      return Promise.resolve();
    },
  };
}

Deno.test("a served store keeps its contract when its server cannot serve for a while", async () => {
  await using scratch = await TempDir.make();
  const tmp = scratch.join("spool");
  await Deno.mkdir(tmp);
  let out = false;
  await using store = await openDisk({ path: scratch.join("store") });
  await using served = await serveStore(store, tmp, {}, async (request, answer) => {
    if (!out) return await answer();
    await request.body?.cancel();
    const body = { code: "unavailable", message: "the store's disk is away" };
    return Response.json(body, { status: 503, headers: { "retry-after": "1" } });
  });
  const client = openHttpClient({ server: served.url });
  await using cas = openHttpCas(client, { tmp, ownsClient: true, clock: hurried() });
  await checkCas(() => Promise.resolve(cas), {
    scratch: scratch.path,
    leftovers: () => leftovers(scratch.join("store")),
    outage() {
      out = true;
      return Promise.resolve({
        [Symbol.asyncDispose]() {
          out = false;
          return Promise.resolve();
        },
      });
    },
  });
});

Deno.test("a cache keeps its contract when both its tiers fail for a while", async () => {
  await using scratch = await TempDir.make();
  const { local, remote } = tiersIn(scratch.path);
  await using cas = await openCache(scratch.path);
  await checkCas(() => Promise.resolve(cas), {
    scratch: scratch.path,
    leftovers: async () => [...await leftovers(local), ...await leftovers(remote)],
    async outage() {
      const away = [await takeAway(`${local}/blake3`), await takeAway(`${remote}/blake3`)];
      return {
        async [Symbol.asyncDispose]() {
          for (const back of away) await back[Symbol.asyncDispose]();
        },
      };
    },
  });
});
