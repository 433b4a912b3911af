/** @module Tests of the `gcs` provider against fake-gcs-server, where there is one. */

import assert from "node:assert/strict";
import { checkCas, cidOf, openCas } from "../../lib/cas/mod.ts";
import { openGcs } from "../../lib/cas/gcs.ts";
import { objectKey } from "../../lib/cas/objects.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { hastyClock, needs, noise, Relay } from "./bucket_kit.ts";
import { callGcs, damageGcs, FAKE_GCS, makeBucket, startFakeGcs } from "./gcs_kit.ts";

const { ignore, suffix } = needs(
  FAKE_GCS,
  "no fake-gcs-server on PATH or in SUBLET_TEST_FAKE_GCS: go install github.com/fsouza/fake-gcs-server@latest",
);

const withServer = (name: string, fn: (url: string) => Promise<void>) =>
  Deno.test({
    name: name + suffix,
    ignore,
    async fn() {
      await using server = await startFakeGcs();
      await fn(server.url);
    },
  });

const env = (url: string) => ({ STORAGE_EMULATOR_HOST: url, HOME: "/nonexistent" });

Deno.test({
  name: `a bucket of fake-gcs-server keeps the contract of a store${suffix}`,
  ignore,
  async fn() {
    await using scratch = await TempDir.make();
    await Deno.mkdir(scratch.join("tmp"));
    await Deno.mkdir(scratch.join("files"));
    await using made = new AsyncDisposableStack();
    let relay: Relay | null = null;
    // Sessions of uploads are where the server says that it is reached: through the relay.
    await using server = await startFakeGcs((url) => (relay = made.use(new Relay(url))).url);
    const through = relay as unknown as Relay;
    await makeBucket(server.url, "store");
    const open = () =>
      openGcs({
        bucket: "store",
        prefix: "/some prefix/100%+ö/",
        env: env(through.url),
        tmp: scratch.join("tmp"),
        clock: hastyClock(),
      });
    await using cas = await open();
    await using other = await open();
    await checkCas(() => Promise.resolve(cas), {
      scratch: scratch.join("files"),
      damage: (cid, how) => damageGcs(server.url, "store", "some prefix/100%+ö/", cid, how),
      leftovers: async () =>
        (await Array.fromAsync(Deno.readDir(scratch.join("tmp/cas-uploads")))).map((e) => e.name),
      again: () => Promise.resolve(other),
      outage: () => Promise.resolve(through.cut()),
    });
  },
});

withServer("large blobs are sent by sessions, and come back whole and in part", async (url) => {
  await makeBucket(url, "large");
  const open = () => openGcs({ bucket: "large", env: env(url) });
  await using cas = await open();
  const blob = noise(21 * 1024 * 1024 + 77);
  const cid = await cas.put(blob);
  assert.deepEqual(await cas.get(cid), blob);
  assert.equal(await cas.sizeOf(cid), blob.length);
  const part = await cas.getRange(cid, 20_000_000, 20_000_100);
  assert.deepEqual(
    await new Response(part?.stream as ReadableStream).bytes(),
    blob.slice(20_000_000, 20_000_100),
  );
  await using fresh = await open();
  assert.equal(await fresh.put(blob), cid);
  assert.deepEqual(await cas.usage(), { blobs: 1, bytes: blob.length + 14 + 169 * 3 });
  await damageGcs(url, "large", "", cid, "flipped");
  assert.equal(await cas.integrity(cid), "corrupt");
  assert.equal(await fresh.put(blob), cid);
  assert.equal(await cas.integrity(cid), "ok");
  assert.equal(await cas.release(cid), blob.length + 14 + 169 * 3);
  assert.equal(await cas.has(cid), false);
});

withServer("objects have the class that is asked for, whatever their size", async (url) => {
  await makeBucket(url, "classes");
  await using cas = await openGcs({ bucket: "classes", env: env(url), storageClass: "ARCHIVE" });
  for (const data of [noise(10), noise(3_000_000)]) {
    const name = encodeURIComponent(objectKey(await cas.put(data)));
    const found = await callGcs(url, "GET", `/storage/v1/b/classes/o/${name}`);
    assert.equal(JSON.parse(new TextDecoder().decode(found)).storageClass, "ARCHIVE");
    assert.deepEqual(await cas.get(cidOf(data)), data);
  }
});

withServer("a listing goes on after a page, and passes over what is no object", async (url) => {
  await makeBucket(url, "pages");
  await using cas = await openGcs({ bucket: "pages", prefix: "p", env: env(url) });
  const cids = await Promise.all(
    Array.from({ length: 1100 }, (_, i) => cas.put(new TextEncoder().encode(`blob ${i}`))),
  );
  for (const name of ["p/blake3/nothing", "p/blake3/x/bytes.zst", "p2/blake3/y/bytes.zst"]) {
    const query = `uploadType=media&name=${encodeURIComponent(name)}`;
    await callGcs(url, "POST", `/upload/storage/v1/b/pages/o?${query}`, "abc");
  }
  assert.deepEqual((await Array.fromAsync(cas.list())).sort(), cids.sort());
  assert.equal((await cas.usage()).blobs, 1100);
});

withServer("a bucket that is not there is a mistake to be mended, not absence", async (url) => {
  await using cas = await openGcs({ bucket: "nowhere", env: env(url) });
  const told = (error: unknown) => isError(error, "config") && error.message.includes("create it");
  const cid = cidOf(new Uint8Array(1));
  await assert.rejects(cas.has(cid), told);
  await assert.rejects(cas.get(cid), told);
  await assert.rejects(cas.put(new Uint8Array(1)), told);
  await assert.rejects(cas.put(noise(3_000_000)), told);
  await assert.rejects(Array.fromAsync(cas.list()), told);
});

withServer("the table in config.toml opens the bucket", async (url) => {
  await using home = await TempDir.make();
  await makeBucket(url, "named");
  const table = { provider: "gcs", bucket: "named", prefix: "a/b", storage_class: "NEARLINE" };
  const client = () => Promise.reject(new Error("no client of ours is needed"));
  const cas = await openCas(table, { home: home.path, tmp: home.path, env: env(url), client });
  await using _cas = cas as unknown as AsyncDisposable;
  const name = encodeURIComponent(`a/b/${objectKey(await cas.put(new Uint8Array(3)))}`);
  await callGcs(url, "GET", `/storage/v1/b/named/o/${name}`);
});
