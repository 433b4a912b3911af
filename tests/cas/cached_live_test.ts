/** @module Tests of blobs that a cache delivers while it fetches them. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { type Cas, type Cid, openDisk } from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { openCache, tiersIn } from "./cached_kit.ts";
import { damageObject, leftovers } from "./disk_kit.ts";

const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};
const same = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b) === 0;
const whole = async (stream: ReadableStream<Uint8Array>) =>
  await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();

/** A store whose streams stop after `after` bytes until `go`, and then end or fail. */
function halting(store: Cas, after: number, fault?: Error) {
  const go = Promise.withResolvers<void>();
  const halted = Promise.withResolvers<void>();
  const cas: Cas = {
    has: (cid) => store.has(cid),
    missing: (cids) => store.missing(cids),
    put: (data, limits) => store.put(data, limits),
    get: (cid) => store.get(cid),
    putStream: (source, limits) => store.putStream(source, limits),
    putFile: (path) => store.putFile(path),
    getFile: (cid, path) => store.getFile(cid, path),
    async getStream(cid) {
      // Not transient: what follows holds pieces while it asks for more.
      const body = await store.getStream(cid);
      if (body === null) return null;
      let at = 0;
      const gate = new TransformStream<Uint8Array, Uint8Array>({
        async transform(piece, controller) {
          at += piece.length;
          if (at >= after) {
            halted.resolve();
            await go.promise;
            if (fault !== undefined) throw fault;
          }
          controller.enqueue(piece);
        },
      });
      return { length: body.length, stream: body.stream.pipeThrough(gate) };
    },
  };
  return { cas, go: () => go.resolve(), halted: halted.promise };
}

async function withRemote(
  length: number,
  work: (found: { root: TempDir; data: Uint8Array; cid: Cid; there: Cas }) => Promise<void>,
): Promise<void> {
  await using root = await TempDir.make();
  await using there = await openDisk({ path: tiersIn(root.path).remote });
  const data = noise(length);
  await work({ root, data, cid: await there.put(data), there });
}

Deno.test("a large blob is delivered while it is fetched", async () => {
  await withRemote(6_000_000, async ({ root, data, cid, there }) => {
    const remote = halting(there, 3_000_000);
    await using cas = await openCache(root.path, { remote: remote.cas });
    const body = await cas.getStream(cid);
    assert.equal(body?.length, data.length);
    const reader = body.stream.getReader();
    const first = (await reader.read()).value ?? new Uint8Array(0);
    assert.ok(first.length > 0 && same(first, data.subarray(0, first.length)));
    await remote.halted;
    remote.go();
    const parts = [first];
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      parts.push(piece.value);
    }
    assert.ok(same(Buffer.concat(parts), data));
    assert.ok(same(await cas.get(cid) ?? first, data));
    assert.equal((await cas.usage()).tiers?.local, 1);
  });
});

Deno.test("a reader that stands still holds up nobody, and gets the rest from the cache", async () => {
  await withRemote(20_000_000, async ({ root, data, cid, there }) => {
    await using cas = await openCache(root.path, { remote: there });
    const slow = await cas.getStream(cid);
    assert.ok(slow !== null);
    assert.ok(same(await cas.get(cid) ?? new Uint8Array(0), data));
    assert.equal((await cas.flush({ evict: true })).evicted, 0);
    assert.ok(same(await whole(slow.stream), data));
  });
});

Deno.test("a reader that leaves does not end the fetch", async () => {
  await withRemote(6_000_000, async ({ root, data, cid, there }) => {
    const remote = halting(there, 3_000_000);
    await using cas = await openCache(root.path, { remote: remote.cas });
    const body = await cas.getStream(cid);
    await body?.stream.cancel();
    remote.go();
    assert.ok(same(await cas.get(cid) ?? new Uint8Array(0), data));
  });
});

Deno.test("a fetch that breaks off fails its readers, and leaves nothing", async () => {
  await withRemote(6_000_000, async ({ root, cid, there }) => {
    const remote = halting(there, 3_000_000, new Error("the line went dead"));
    await using cas = await openCache(root.path, { remote: remote.cas });
    const body = await cas.getStream(cid);
    const other = cas.get(cid);
    other.catch(() => {});
    remote.go();
    await assert.rejects(whole(body?.stream as ReadableStream), /the line went dead/);
    await assert.rejects(other, /the line went dead/);
    assert.deepEqual(await leftovers(tiersIn(root.path).local), []);
    assert.equal((await cas.usage()).tiers?.local, 0);
  });
});

Deno.test("the last bytes of a blob that is damaged on the remote are not delivered", async () => {
  await withRemote(6_000_000, async ({ root, data, cid, there }) => {
    await damageObject(tiersIn(root.path).remote, cid, "flipped");
    await using cas = await openCache(root.path, { remote: there });
    const body = await cas.getStream(cid);
    let length = 0;
    const read = async () => {
      for await (const piece of body?.stream ?? []) length += piece.length;
    };
    await assert.rejects(read(), (error) => isError(error, "integrity"));
    assert.ok(length < data.length);
    assert.equal((await cas.usage()).tiers?.local, 0);
  });
});

Deno.test("a blob that there is no room for is delivered all the same", async () => {
  await withRemote(12_000_000, async ({ root, data, cid, there }) => {
    await using cas = await openCache(root.path, { remote: there });
    await Deno.remove(`${tiersIn(root.path).local}/tmp`);
    const body = await cas.getStream(cid);
    assert.ok(same(await whole(body?.stream as ReadableStream), data));
  });
});

Deno.test("a large blob is not fetched for one who would not take it", async () => {
  await withRemote(6_000_000, async ({ root, data, cid, there }) => {
    await using cas = await openCache(root.path, { remote: there });
    const refused = cas.getStream(cid, { maxBytes: data.length - 1 });
    await assert.rejects(refused, (error) => isError(error, "too_large"));
    assert.equal((await cas.usage()).tiers?.local, 0);
  });
});
