/** @module The empty blob is in every store, whether or not somebody put it, and also after a collection. */

import assert from "node:assert/strict";
import {
  type Cas,
  cidOf,
  type Collectable,
  collectGarbage,
  digestOf,
  drislCid,
  openCached,
  openDisk,
  openMemory,
  openSqliteCas,
  type Ranged,
  type Sized,
} from "../../lib/cas/mod.ts";
import { stderrLog, systemClock } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";

const EMPTY = cidOf(new Uint8Array(0));

type Store = Cas & Collectable & Ranged & Sized & Partial<AsyncDisposable>;

const STORES: Record<string, (path: string) => Promise<Store>> = {
  disk: (path) => openDisk({ path }),
  sqlite: (path) => openSqliteCas({ path }),
  memory: () => Promise.resolve(openMemory()),
  cached: async (path) =>
    await openCached({
      path,
      remote: await openDisk({ path: `${path}.remote` }),
      where: "file://remote",
      clock: systemClock,
      log: stderrLog,
    }),
};

for (const [name, open] of Object.entries(STORES)) {
  Deno.test(`a ${name} store has the empty blob that nobody put, and keeps having it`, async () => {
    await using scratch = await TempDir.make();
    const cas = await open(scratch.join("store"));
    await using _open = { [Symbol.asyncDispose]: async () => await cas[Symbol.asyncDispose]?.() };
    const file = scratch.join("file");
    const check = async () => {
      for (const cid of [EMPTY, drislCid(digestOf(EMPTY))]) {
        assert.equal(await cas.has(cid), true);
        assert.deepEqual(await cas.missing([cid, cid]), []);
        assert.equal((await cas.get(cid))?.length, 0);
        assert.equal((await cas.getStream(cid))?.length, 0);
        assert.equal((await cas.getRange(cid, 0))?.length, 0);
        assert.equal(await cas.sizeOf(cid), 0);
        assert.equal(await cas.sizeOf(cid, { check: true }), 0);
        assert.equal(await cas.getFile(cid, file), 0);
        assert.equal((await Deno.stat(file)).size, 0);
      }
    };
    await check();
    assert.equal(await cas.put(new Uint8Array(0)), EMPTY);
    await check();
    const report = await collectGarbage(cas, { find: async () => {}, graceMs: -2000 });
    assert.equal(report.removed, 1);
    const find = async (found: (cid: typeof EMPTY) => unknown) => void await found(EMPTY);
    assert.deepEqual((await collectGarbage(cas, { find, graceMs: -2000 })).lost, []);
    await check();
  });
}
