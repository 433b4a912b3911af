/** @module Tests of the `s3` provider against real servers: moto's, and MinIO where there is one. */

import assert from "node:assert/strict";
import { checkCas, type Cid, cidOf, openCas } from "../../lib/cas/mod.ts";
import { objectKey } from "../../lib/cas/objects.ts";
import { openS3, type S3Options } from "../../lib/cas/s3.ts";
import { isError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { type BucketServer, hastyClock, needs, noise, Relay } from "./bucket_kit.ts";
import { callS3, damageS3, MINIO, MOTO, s3Env, startMinio, startMoto } from "./s3_kit.ts";

const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** Names of uploads that the bucket has the parts of. */
async function unfinished(base: string, bucket: string): Promise<string[]> {
  const xml = decode(await callS3(base, "GET", `/${bucket}?uploads`));
  return [...xml.matchAll(/<UploadId>(.*?)<\/UploadId>/g)].map((match) => match[1] ?? "");
}

async function checkContract(server: BucketServer, options: Partial<S3Options>): Promise<void> {
  await using scratch = await TempDir.make();
  await Deno.mkdir(scratch.join("tmp"));
  await Deno.mkdir(scratch.join("files"));
  using relay = new Relay(server.url);
  const env = s3Env(relay.url);
  await callS3(server.url, "PUT", "/store");
  const open = () =>
    openS3({
      url: "s3://store/some prefix/100%+ö",
      env,
      tmp: scratch.join("tmp"),
      clock: hastyClock(),
      ...options,
    });
  const place = "/store/some%20prefix/100%25%2B%C3%B6/";
  await using cas = await open();
  await using other = await open();
  await checkCas(() => Promise.resolve(cas), {
    scratch: scratch.join("files"),
    damage: (cid, how) => damageS3(server.url, place, cid, how),
    leftovers: async () => [
      ...(await Array.fromAsync(Deno.readDir(scratch.join("tmp/cas-uploads")))).map((e) => e.name),
      ...await unfinished(server.url, "store"),
    ],
    again: () => Promise.resolve(other),
    outage: () => Promise.resolve(relay.cut()),
  });
}

interface Kind {
  readonly name: string;
  readonly start: (data: string) => Promise<BucketServer>;
  readonly options: Partial<S3Options>;
  readonly ignore: boolean;
  readonly suffix: string;
}

const KINDS: Kind[] = [
  {
    name: "moto",
    start: startMoto,
    options: {},
    ...needs(MOTO, "no moto_server on PATH or in SUBLET_TEST_MOTO: pip install 'moto[server]'"),
  },
  {
    name: "MinIO",
    start: startMinio,
    // It has no others.
    options: { storageClass: "STANDARD" },
    ...needs(
      MINIO,
      "no minio on PATH or in SUBLET_TEST_MINIO: go install github.com/minio/minio@latest",
    ),
  },
];

for (const { name, start, options, ignore, suffix } of KINDS) {
  Deno.test({
    name: `a bucket of ${name} keeps the contract of a store${suffix}`,
    ignore,
    async fn() {
      await using data = await TempDir.make();
      await using server = await start(data.path);
      await checkContract(server, options);
    },
  });

  Deno.test({
    name: `large blobs go to ${name} in parts, and come back whole and in part${suffix}`,
    ignore,
    async fn() {
      await using data = await TempDir.make();
      await using server = await start(data.path);
      await callS3(server.url, "PUT", "/large");
      await using cas = await openS3({ url: "s3://large", env: s3Env(server.url), ...options });
      const blob = noise(21 * 1024 * 1024 + 77);
      const cid = await cas.put(blob);
      const head = decode(await callS3(server.url, "GET", "/large?list-type=2"));
      assert.match(head, /-3(&quot;|&#34;|")?<\/ETag>/, "three parts");
      assert.deepEqual(await cas.get(cid), blob);
      assert.equal(await cas.sizeOf(cid), blob.length);
      const part = await cas.getRange(cid, 20_000_000, 20_000_100);
      assert.deepEqual(
        await new Response(part?.stream as ReadableStream).bytes(),
        blob.slice(20_000_000, 20_000_100),
      );
      // What is there already is neither sent nor read again.
      await using fresh = await openS3({ url: "s3://large", env: s3Env(server.url), ...options });
      assert.equal(await fresh.put(blob), cid);
      assert.deepEqual(await unfinished(server.url, "large"), []);
      assert.deepEqual(await cas.usage(), { blobs: 1, bytes: blob.length + 14 + 169 * 3 });
      await damageS3(server.url, "/large/", cid, "flipped");
      assert.equal(await cas.integrity(cid), "corrupt");
      assert.equal(await fresh.put(blob), cid);
      assert.equal(await cas.integrity(cid), "ok");
      assert.equal(await cas.release(cid), blob.length + 14 + 169 * 3);
      assert.equal(await cas.has(cid), false);
    },
  });
}

const moto = KINDS[0] as Kind;
const withMoto = (name: string, fn: (url: string) => Promise<void>) =>
  Deno.test({
    name: name + moto.suffix,
    ignore: moto.ignore,
    async fn() {
      await using server = await moto.start("");
      await fn(server.url);
    },
  });

/** The class of the object of `cid`. */
async function classOf(base: string, bucket: string, cid: Cid): Promise<string | undefined> {
  const xml = decode(
    await callS3(
      base,
      "GET",
      `/${bucket}?list-type=2&prefix=${encodeURIComponent(objectKey(cid))}`,
    ),
  );
  return /<StorageClass>(.*?)</.exec(xml)?.[1];
}

withMoto("small objects are STANDARD, larger ones of the class that is asked for", async (url) => {
  await callS3(url, "PUT", "/classes");
  await using cas = await openS3({ url: "s3://classes", env: s3Env(url), standardBelow: 50_000 });
  assert.equal(await classOf(url, "classes", await cas.put(noise(49_000))), "STANDARD");
  assert.equal(await classOf(url, "classes", await cas.put(noise(51_000))), "GLACIER_IR");
  assert.equal(await classOf(url, "classes", await cas.put(noise(9_000_000))), "GLACIER_IR");
  // Compressed, they are small.
  assert.equal(await classOf(url, "classes", await cas.put(new Uint8Array(9_000_000))), "STANDARD");
});

withMoto("a listing goes on after a page, and passes over what is no object", async (url) => {
  await callS3(url, "PUT", "/pages");
  await using cas = await openS3({ url: "s3://pages/p", env: s3Env(url) });
  const cids = await Promise.all(
    Array.from({ length: 1100 }, (_, i) => cas.put(new TextEncoder().encode(`blob ${i}`))),
  );
  for (
    const key of ["p/blake3/nothing", "p/blake3/x/bytes.zst", "p2/blake3/y/bytes.zst", "p/other"]
  ) {
    await callS3(url, "PUT", `/pages/${key}`, new Uint8Array(3));
  }
  assert.deepEqual((await Array.fromAsync(cas.list())).sort(), cids.sort());
  assert.equal((await cas.usage()).blobs, 1100);
});

withMoto("a bucket that is not there is a mistake to be mended, not absence", async (url) => {
  await using cas = await openS3({ url: "s3://nowhere", env: s3Env(url) });
  const told = (error: unknown) =>
    isError(error, "config") && error.message.includes("nowhere") &&
    error.message.includes("create it");
  const cid = cidOf(new Uint8Array(1));
  await assert.rejects(cas.has(cid), told);
  await assert.rejects(cas.get(cid), told);
  await assert.rejects(cas.put(new Uint8Array(1)), told);
  await assert.rejects(cas.put(noise(100_000)), told);
  await assert.rejects(Array.fromAsync(cas.list()), told);
});

withMoto("an archived object is said to be that", async (url) => {
  await callS3(url, "PUT", "/cold");
  await using cas = await openS3({ url: "s3://cold", env: s3Env(url), storageClass: "GLACIER" });
  const data = noise(200_000);
  const cid = await cas.put(data);
  assert.equal(await cas.has(cid), true);
  await assert.rejects(
    cas.get(cid),
    (error) => isError(error, "unavailable") && /archived.*[Rr]estore/s.test(error.message),
  );
  // It cannot be checked, and is not written again.
  assert.equal(await cas.put(data), cid);
});

withMoto("the table in config.toml opens the bucket", async (url) => {
  await using home = await TempDir.make();
  await callS3(url, "PUT", "/dots.in.name");
  const table = {
    provider: "s3",
    url: "s3://dots.in.name/a/b/",
    storage_class: "STANDARD_IA",
    standard_below: 0,
  };
  const client = () => Promise.reject(new Error("no client of ours is needed"));
  const cas = await openCas(table, { home: home.path, tmp: home.path, env: s3Env(url), client });
  await using _cas = cas as unknown as AsyncDisposable;
  const cid = await cas.put(new Uint8Array(3));
  const [frame] = await callS3(url, "GET", `/dots.in.name/a/b/${objectKey(cid)}`);
  assert.equal(frame, 0x28);
  assert.equal(await classOf(url, "dots.in.name", cid), undefined, "it has the prefix");
});
