/** @module Tests of the http provider against the service, over a real socket. */

import { checkCas, openDisk, openMemory } from "../../lib/cas/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { damageObject, leftovers } from "./disk_kit.ts";
import { serveStore } from "./http_kit.ts";

Deno.test("a disk store over HTTP keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  const root = scratch.join("store");
  const tmp = scratch.join("spool");
  await Deno.mkdir(tmp);
  await using store = await openDisk({ path: root });
  await using served = await serveStore(store, tmp);
  await checkCas(() => Promise.resolve(served.cas), {
    scratch: scratch.path,
    damage: (cid, how) => damageObject(root, cid, how),
    leftovers: async () => [
      ...await leftovers(root),
      ...(await Array.fromAsync(Deno.readDir(tmp))).map((entry) => entry.name),
    ],
  });
});

Deno.test("a memory store over HTTP keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  await using served = await serveStore(openMemory(), scratch.path);
  await checkCas(() => Promise.resolve(served.cas), { scratch: scratch.path });
});

Deno.test("a store without ranges, lengths and questions about many keeps the contract, too", async () => {
  await using scratch = await TempDir.make();
  const store = openMemory();
  await using served = await serveStore(
    {
      has: (cid) => store.has(cid),
      missing: (cids) => store.missing(cids),
      put: (data, limits) => store.put(data, limits),
      get: (cid) => store.get(cid),
      putStream: (source, limits) => store.putStream(source, limits),
      getStream: (cid, limits) => store.getStream(cid, limits),
      putFile: (path) => store.putFile(path),
      getFile: (cid, path) => store.getFile(cid, path),
    },
    scratch.path,
    {},
    async (request, answer) => {
      if (new URL(request.url).pathname !== "/v1/cas/missing") return await answer();
      await request.body?.cancel();
      return Response.json({ code: "invalid_request", message: "no" }, {
        status: 405,
        headers: { allow: "HEAD" },
      });
    },
  );
  await checkCas(() => Promise.resolve(served.cas), { scratch: scratch.path });
});
