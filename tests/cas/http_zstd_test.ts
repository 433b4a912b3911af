/** @module Tests of bodies that are zstd frames, both ways, over real sockets. */

import assert from "node:assert/strict";
import { zstdDecompressSync } from "node:zlib";
import { type Cid, cidOf, openDisk, openMemory } from "../../lib/cas/mod.ts";
import type { ServiceLimits } from "../../lib/cas/mod.ts";
import { encode } from "../../lib/cas/object_encode.ts";
import { TempDir } from "../kit/mod.ts";
import { damageObject, leftovers, objectPath } from "./disk_kit.ts";
import { serveStore } from "./http_kit.ts";

const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};
const prose = (length: number) =>
  new TextEncoder().encode("the quick brown fox, no. ".repeat(length / 20)).slice(0, length);
const compress = async (data: Uint8Array) => new Uint8Array(await encode(data));

async function setUp(limits: ServiceLimits = {}) {
  const stack = new AsyncDisposableStack();
  const scratch = stack.use(await TempDir.make());
  const root = scratch.join("store");
  const store = await openDisk({ path: root });
  const served = stack.use(await serveStore(store, scratch.path, { limits }));
  const get = (cid: Cid, headers: Record<string, string>) =>
    fetchRaw(`${served.url}/v1/cas/${cid}`, headers);
  const put = (cid: Cid, body: Uint8Array<ArrayBuffer>, coding?: string) =>
    send(`${served.url}/v1/cas/${cid}`, body, coding);
  return { root, store, served, get, put, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** The answer to a put, received whole. */
async function send(
  url: string,
  body: Uint8Array<ArrayBuffer>,
  coding = "zstd",
): Promise<Response> {
  const answer = await fetch(url, { method: "PUT", body, headers: { "content-encoding": coding } });
  const bytes = await answer.bytes();
  return new Response(bytes.length === 0 ? null : bytes, answer);
}

/** `fetch`, whose own decoding of an answer is not wanted: over a socket. */
async function fetchRaw(url: string, headers: Record<string, string>) {
  const { hostname, port, pathname } = new URL(url);
  const lines = Object.entries({ host: "x", connection: "close", ...headers })
    .map(([name, value]) => `${name}: ${value}\r\n`).join("");
  using connection = await Deno.connect({ hostname, port: Number(port) });
  await connection.write(new TextEncoder().encode(`GET ${pathname} HTTP/1.1\r\n${lines}\r\n`));
  const all = await new Response(connection.readable).bytes();
  const text = new TextDecoder().decode(all.subarray(0, 2000));
  const end = text.indexOf("\r\n\r\n");
  const head = new Headers(
    text.slice(0, end).split("\r\n").slice(1).map((line): [string, string] => {
      const at = line.indexOf(":");
      return [line.slice(0, at), line.slice(at + 1).trim()];
    }),
  );
  return { status: Number(text.slice(9, 12)), headers: head, body: all.slice(end + 4) };
}

/** Whether two are the same: a difference of so many bytes is not worth the minutes that it takes to print. */
function same(a: Uint8Array, b: Uint8Array): void {
  assert.equal(cidOf(a), cidOf(b), `${a.length} bytes are not the ${b.length} that they should be`);
}

async function refused(answer: Promise<Response>, status: number, code: string) {
  const got = await answer;
  const body = await got.json();
  assert.deepEqual([got.status, body.code], [status, code], body.message);
  return got;
}

Deno.test("whoever takes zstd gets the stored frame as it is, and anybody else the blob", async () => {
  await using setting = await setUp();
  const { store, get, root } = setting;
  for (const length of [20_000, 3_000_000]) {
    const data = prose(length);
    const cid = await store.put(data);
    const frame = await Deno.readFile(objectPath(root, cid));
    for (const accept of ["zstd", "gzip, br, zstd", "gzip;q=1, ZSTD ; q=0.5"]) {
      const answer = await get(cid, { "accept-encoding": accept });
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get("content-encoding"), "zstd");
      assert.equal(answer.headers.get("content-length"), String(frame.length));
      assert.equal(answer.headers.get("blob-length"), String(length));
      assert.equal(answer.headers.get("etag"), `W/"${cid}"`);
      assert.equal(answer.headers.get("vary"), "accept-encoding");
      same(answer.body, frame);
      same(new Uint8Array(zstdDecompressSync(answer.body)), data);
    }
    for (const accept of ["gzip", "zstd;q=0", "zstdx", "*", "gzip, zstd;q=0.000"]) {
      const answer = await get(cid, { "accept-encoding": accept });
      assert.equal(answer.headers.get("content-encoding"), null);
      same(answer.body, data);
    }
  }
});

Deno.test("a part of a blob, and a blob that does not compress, come as they are", async () => {
  await using setting = await setUp();
  const { store, get } = setting;
  const data = prose(300_000);
  const cid = await store.put(data);
  const part = await get(cid, { "accept-encoding": "zstd", range: "bytes=10-19" });
  assert.deepEqual([part.status, part.body], [206, data.slice(10, 20)]);
  const dense = noise(300_000);
  const whole = await get(await store.put(dense), { "accept-encoding": "zstd" });
  assert.equal(whole.headers.get("content-encoding"), null);
  same(whole.body, dense);
  const absent = await get(cidOf(noise(3)), { "accept-encoding": "zstd" });
  assert.equal(absent.status, 404);
});

Deno.test("a damaged frame is not sent", async () => {
  for (const how of ["flipped", "truncated", "empty"] as const) {
    await using setting = await setUp();
    const { store, get, root } = setting;
    const cid = await store.put(prose(300_000));
    await damageObject(root, cid, how);
    const answer = await get(cid, { "accept-encoding": "zstd" });
    assert.equal(answer.status, 500, how);
    assert.match(new TextDecoder().decode(answer.body), /"code":"integrity"/);
  }
});

Deno.test("a blob may come as a frame, which is kept as it is when it says its length", async () => {
  await using setting = await setUp();
  const { store, put, root } = setting;
  for (const length of [0, 5, 20_000, 6_000_000]) {
    const data = prose(length + 20).slice(0, length);
    const cid = cidOf(data);
    for (let i = 0; i < 2; i++) {
      const answer = await put(cid, await compress(data));
      assert.deepEqual([answer.status, (await answer.bytes()).length], [201, 0]);
    }
    same(await store.get(cid) ?? new Uint8Array(1), data);
  }
  const mixed = new Uint8Array([...prose(2_000_000), ...noise(200_000)]);
  const frame = await compress(mixed);
  assert.ok(frame.length > 65_536);
  assert.equal((await put(cidOf(mixed), frame)).status, 201);
  same(await Deno.readFile(objectPath(root, cidOf(mixed))), frame);
  same(await store.get(cidOf(mixed)) ?? new Uint8Array(1), mixed);
  assert.equal(await store.integrity(cidOf(mixed)), "ok");
  assert.deepEqual(await leftovers(root), []);
});

Deno.test("a store that keeps no frames takes them, too", async () => {
  await using scratch = await TempDir.make();
  const store = openMemory();
  await using served = await serveStore(store, scratch.path);
  for (const data of [prose(20_000), new Uint8Array([...prose(2_000_000), ...noise(200_000)])]) {
    const answer = await send(`${served.url}/v1/cas/${cidOf(data)}`, await compress(data));
    assert.equal(answer.status, 201);
    same(await store.get(cidOf(data)) ?? new Uint8Array(1), data);
  }
});

Deno.test("what is not exactly one frame of the blob is refused, and nothing is kept", async () => {
  await using setting = await setUp();
  const { store, put, root } = setting;
  for (const data of [prose(20_000), new Uint8Array([...prose(2_000_000), ...noise(200_000)])]) {
    const cid = cidOf(data);
    const frame = await compress(data);
    const twice = new Uint8Array([...frame, ...frame]);
    const flipped = frame.slice();
    const middle = Math.floor(frame.length / 2);
    flipped[middle] = (flipped[middle] ?? 0) ^ 0x10;
    for (
      const body of [
        frame.slice(0, -1),
        frame.slice(0, frame.length / 2),
        new Uint8Array([...frame, 0]),
        twice,
        data.slice(0, 100_000),
        new Uint8Array(0),
        frame.slice(0, 4),
      ]
    ) await refused(put(cid, body), 400, "invalid_request");
    const answer = await put(cid, flipped);
    const { code } = await answer.json();
    assert.ok(answer.status === 400 && ["invalid_request", "cid_mismatch"].includes(code), code);
    await refused(put(cidOf(noise(5)), frame), 400, "cid_mismatch");
    assert.equal(await store.has(cid), false);
  }
  assert.deepEqual(await leftovers(root), []);
});

/** A frame of RLE blocks: `count` times 128 KiB of zeros in 4 bytes each, whose header announces `length` bytes, or none. */
function bomb(count: number, length: number | null): Uint8Array<ArrayBuffer> {
  const header = length === null ? [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38] : [
    0x28,
    0xb5,
    0x2f,
    0xfd,
    0xc0,
    0x38,
    ...new Uint8Array(new BigUint64Array([BigInt(length)]).buffer),
  ];
  const frame = new Uint8Array(header.length + 4 * count);
  frame.set(header);
  for (let i = 0; i < count; i++) {
    const word = (131_072 << 3) | (1 << 1) | (i === count - 1 ? 1 : 0);
    frame.set([word & 255, (word >> 8) & 255, word >> 16, 0], header.length + 4 * i);
  }
  return frame;
}

Deno.test("a bomb is refused before it unfolds, whatever it says of itself", async () => {
  await using setting = await setUp({ maxBytes: 10_000_000 });
  const { put, root } = setting;
  const cid = cidOf(noise(5));
  for (const count of [1000, 20_000]) {
    await refused(put(cid, bomb(count, count * 131_072)), 413, "too_large");
    await refused(put(cid, bomb(count, null)), 413, "too_large");
    await refused(put(cid, bomb(count, 5_000_000)), 400, "invalid_request");
    await refused(put(cid, bomb(count, 2 ** 50)), 413, "too_large");
  }
  assert.deepEqual(await leftovers(root), []);
});

Deno.test("any other coding is 415, and says which there are", async () => {
  await using setting = await setUp();
  const { put, store } = setting;
  const data = prose(100);
  for (const coding of ["gzip", "zstd, zstd", "br", "x".repeat(100)]) {
    const answer = await refused(put(cidOf(data), data, coding), 415, "invalid_request");
    assert.equal(answer.headers.get("accept-encoding"), "zstd");
  }
  assert.equal((await put(cidOf(data), data, "identity")).status, 201);
  same(await store.get(cidOf(data)) ?? new Uint8Array(1), data);
});

Deno.test("our client sends and takes frames where they are smaller", async () => {
  await using scratch = await TempDir.make();
  const store = await openDisk({ path: scratch.join("store") });
  const seen: string[] = [];
  await using served = await serveStore(store, scratch.path, {}, async (request, answer) => {
    const given = await answer();
    const coding = request.method === "PUT" ? request.headers : given.headers;
    seen.push(`${request.method} ${coding.get("content-encoding") ?? "as it is"}`);
    return given;
  });
  const text = prose(3_000_000);
  const dense = noise(300_000);
  assert.equal(await served.cas.put(text), cidOf(text));
  const stream = new Blob([text]).stream();
  assert.equal(await served.cas.putStream(stream), cidOf(text));
  same(await served.cas.get(cidOf(text)) ?? new Uint8Array(1), text);
  const body = await served.cas.getStream(cidOf(text));
  assert.equal(body?.length, text.length);
  await body?.stream.cancel();
  assert.equal(await served.cas.put(dense), cidOf(dense));
  same(await served.cas.get(cidOf(dense)) ?? new Uint8Array(1), dense);
  assert.deepEqual(seen, [
    "HEAD as it is",
    "PUT zstd",
    "HEAD as it is",
    "GET zstd",
    "GET zstd",
    "HEAD as it is",
    "PUT as it is",
    "GET as it is",
  ]);
});
