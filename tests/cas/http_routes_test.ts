/** @module Tests of the store's HTTP service, on raw sockets where the bytes matter. */

import assert from "node:assert/strict";
import {
  casService,
  checkCas,
  cidOf,
  cidOfDigest,
  createHasher,
  digestOf,
  drislCid,
  openDisk,
  openMemory,
} from "../../lib/cas/mod.ts";
import { SubletError } from "../../lib/home/mod.ts";
import { TempDir, until } from "../kit/mod.ts";
import { damageObject, leftovers } from "./disk_kit.ts";
import { raw, type Served, serveStore } from "./http_kit.ts";

const ABC = "bafkr4ideg6z2yocgkez77nr3outtvdnvjdcvqrs5phnqh7jvtrwnlpm5qu";
const text = (value: string) => new TextEncoder().encode(value);
const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};

/** A served disk store with the blob `abc` and a large one. */
async function setUp(options: Parameters<typeof serveStore>[2] = {}) {
  const stack = new AsyncDisposableStack();
  const scratch = stack.use(await TempDir.make());
  const root = scratch.join("store");
  const store = await openDisk({ path: root });
  const served: Served = stack.use(await serveStore(store, scratch.path, options));
  await store.put(text("abc"));
  const data = noise(400_000);
  const large = await store.put(data);
  const ask = (method: string, path: string, init: RequestInit = {}) =>
    fetch(`${served.url}/v1/cas/${path}`, { ...init, method });
  return {
    root,
    store,
    served,
    data,
    large,
    ask,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function refusal(answer: Response, status: number, code: string, ...words: string[]) {
  assert.equal(answer.status, status);
  const { code: found, message, ...rest } = await answer.json();
  assert.equal(found, code);
  assert.deepEqual(rest, {});
  for (const word of words) assert.ok(message.includes(word), `${message} does not name ${word}`);
}

Deno.test("a GET gives the bytes, their type, length and tag, by either codec", async () => {
  await using setting = await setUp();
  const { ask, data, large } = setting;
  for (const cid of [large, drislCid(digestOf(large))]) {
    const answer = await ask("GET", cid);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get("content-type"), "application/octet-stream");
    assert.equal(answer.headers.get("content-length"), String(data.length));
    assert.equal(answer.headers.get("etag"), `"${large}"`);
    assert.deepEqual(await answer.bytes(), data);
  }
});

Deno.test("a PUT answers 201 with no body, once and again", async () => {
  await using setting = await setUp();
  const { ask, store } = setting;
  for (const body of [text("fresh"), noise(300_000), new Uint8Array(0)]) {
    for (let i = 0; i < 2; i++) {
      const answer = await ask("PUT", cidOf(body), { body });
      assert.equal(answer.status, 201);
      assert.equal((await answer.bytes()).length, 0);
    }
    assert.deepEqual(await store.get(cidOf(body)), body);
  }
});

Deno.test("what is not there is 404, and names the CID", async () => {
  await using setting = await setUp();
  const { ask } = setting;
  const cid = cidOf(text("nothing"));
  await refusal(await ask("GET", cid), 404, "not_found", cid);
  const head = await ask("HEAD", cid);
  assert.deepEqual([head.status, await head.text()], [404, ""]);
});

Deno.test("what is no CID of a BLAKE3 blob is 400 invalid_cid", async () => {
  await using setting = await setUp();
  const { ask } = setting;
  const sha = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy";
  for (const path of ["hello", ABC.toUpperCase(), sha, ABC.slice(1), "%2e%2e%2f"]) {
    await refusal(await ask("GET", path), 400, "invalid_cid");
    await refusal(await ask("PUT", path, { body: "abc" }), 400, "invalid_cid");
    const head = await ask("HEAD", path);
    assert.deepEqual([head.status, await head.text()], [400, ""]);
  }
});

Deno.test("a PUT of other bytes is 400 cid_mismatch, names the CID and stores nothing", async () => {
  await using setting = await setUp();
  const { ask, store, root } = setting;
  const [cid, body] = [cidOf(text("wanted")), noise(300_000)];
  for (const sent of [text("sent"), body]) {
    await refusal(await ask("PUT", cid, { body: sent }), 400, "cid_mismatch", cid);
    assert.deepEqual([await store.has(cid), await store.has(cidOf(sent))], [false, false]);
  }
  assert.deepEqual(await leftovers(root), []);
});

Deno.test("a chunked PUT is 411 length_required, and its sender can read that", async () => {
  await using setting = await setUp();
  const { served } = setting;
  for (const chunks of [1, 100]) {
    const body = `10000\r\n${"x".repeat(65_536)}\r\n`.repeat(chunks) + "0\r\n\r\n";
    const answer = await raw(
      served,
      `PUT /v1/cas/${ABC} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n${body}`,
    );
    assert.match(answer, /^HTTP\/1\.1 411 /);
    assert.match(answer, /"code":"length_required"/);
    assert.ok(answer.includes(ABC));
  }
});

Deno.test("a large PUT that is refused at once can be read by a sender that sends it all first", async () => {
  await using setting = await setUp({ limits: { maxBytes: 1_000_000 } });
  const { served } = setting;
  const head = (cid: string, length: number) =>
    `PUT /v1/cas/${cid} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`;
  const body = "x".repeat(8_000_000);
  const large = await raw(served, head(ABC, body.length) + body);
  assert.match(large, /^HTTP\/1\.1 413 [\s\S]*"code":"too_large"/);
  const wrong = await raw(served, head("no-cid", body.length) + body);
  assert.match(wrong, /^HTTP\/1\.1 400 [\s\S]*"code":"invalid_cid"/);
  const other = await raw(served, head(ABC, 900_000) + body.slice(0, 900_000));
  assert.match(other, /^HTTP\/1\.1 400 [\s\S]*"code":"cid_mismatch"/);
});

Deno.test("a sender that waits to be asked for its body is refused without it", async () => {
  await using setting = await setUp({ limits: { maxBytes: 1_000_000 } });
  const { served } = setting;
  for (const length of ["8000000", "9000000000000000000"]) {
    const answer = await raw(
      served,
      `PUT /v1/cas/${ABC} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`,
      (found) => found.includes("}"),
    );
    // Deno 2.9 asks for it before we see the request, 2.6 does not.
    assert.match(answer, /^(HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 413 /);
  }
});

Deno.test("another method on a blob is 405 with those that are allowed", async () => {
  await using setting = await setUp();
  const { ask } = setting;
  for (const method of ["DELETE", "POST", "PATCH", "OPTIONS"]) {
    const answer = await ask(method, ABC);
    assert.equal(answer.headers.get("allow"), "GET, HEAD, PUT");
    await refusal(answer, 405, "method_not_allowed", ABC);
  }
  const answer = await ask("DELETE", "missing");
  assert.equal(answer.headers.get("allow"), "POST");
  await refusal(answer, 405, "method_not_allowed");
});

Deno.test("a HEAD has the headers of a GET and no body, and the connection goes on", async () => {
  await using setting = await setUp();
  const { served, large } = setting;
  const absent = cidOf(text("nothing"));
  const heads = [ABC, large, absent, ABC]
    .map((cid) => `HEAD /v1/cas/${cid} HTTP/1.1\r\nHost: x\r\n\r\n`).join("");
  const answer = await raw(
    served,
    `${heads}GET /v1/cas/${ABC} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  const parts = answer.split("\r\n\r\n");
  assert.deepEqual(parts.map((part) => part.slice(0, 12)), [
    "HTTP/1.1 200",
    "HTTP/1.1 200",
    "HTTP/1.1 404",
    "HTTP/1.1 200",
    "HTTP/1.1 200",
    "abc",
  ]);
  const lengths = parts.map((part) => /^content-length: (\d+)/im.exec(part)?.[1]);
  assert.deepEqual([lengths[0], lengths[1], lengths[3]], ["3", "400000", "3"]);
  assert.doesNotMatch(answer, /transfer-encoding/i);
  const get = await raw(
    served,
    `GET /v1/cas/${absent} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  assert.equal(lengths[2], String(get.split("\r\n\r\n")[1]?.length));
});

const tagged = (tag: string) => ({ headers: { "if-none-match": tag } });

Deno.test("a tag that the client has is 304, any other is not", async () => {
  await using setting = await setUp();
  const { ask, large } = setting;
  const status = async (tag: string, cid: string = large) => {
    const [got, seen] = [await ask("GET", cid, tagged(tag)), await ask("HEAD", cid, tagged(tag))];
    await got.body?.cancel();
    assert.equal(seen.status, got.status);
    assert.equal(seen.headers.get("etag"), got.headers.get("etag"));
    return got.status;
  };
  for (
    const tag of [`"${large}"`, `W/"${large}"`, large, "*", `"x", "${drislCid(digestOf(large))}"`]
  ) {
    assert.equal(await status(tag), 304, tag);
  }
  assert.equal(await status(`"${ABC}"`), 200);
  assert.equal(await status('"x"'), 200);
  const absent = cidOf(text("nothing"));
  assert.equal(await status(`"${absent}"`, absent), 404);
});

Deno.test("one range of bytes is 206 with its place, and what cannot be had is 416", async () => {
  await using setting = await setUp();
  const { ask, data, large } = setting;
  const part = (range: string, more: Record<string, string> = {}) =>
    ask("GET", large, { headers: { range, ...more } });
  const cases: [string, number, number][] = [
    ["bytes=0-0", 0, 1],
    ["bytes=131070-131075", 131_070, 131_076],
    ["bytes=399999-", 399_999, 400_000],
    ["bytes=-5", 399_995, 400_000],
    ["bytes=-999999", 0, 400_000],
    ["bytes=10-999999999", 10, 400_000],
    ["bytes=10-99999999999999999999", 10, 400_000],
    ["bytes=-99999999999999999999", 0, 400_000],
  ];
  for (const [range, from, to] of cases) {
    const answer = await part(range);
    assert.equal(answer.status, 206, range);
    assert.equal(answer.headers.get("content-range"), `bytes ${from}-${to - 1}/400000`);
    assert.equal(answer.headers.get("content-length"), String(to - from));
    assert.deepEqual(await answer.bytes(), data.slice(from, to));
  }
  for (
    const range of ["bytes=400000-", "bytes=999999-1000000", "bytes=-0", `bytes=${10n ** 30n}-`]
  ) {
    const answer = await part(range);
    assert.equal(answer.headers.get("content-range"), "bytes */400000");
    await refusal(answer, 416, "invalid_request", large);
  }
  for (const range of ["bytes=0-1,5-6", "bytes=5-4", "lines=1-2", "bytes=-", "bytes=x-"]) {
    const answer = await part(range);
    assert.equal(answer.status, 200, range);
    assert.equal((await answer.bytes()).length, 400_000);
  }
  const status = async (tag: string) => {
    const answer = await part("bytes=0-0", { "if-range": tag });
    await answer.body?.cancel();
    return answer.status;
  };
  assert.deepEqual([await status(`"${large}"`), await status('"other"')], [206, 200]);
});

Deno.test("one question about many blobs is answered in order, with repeats", async () => {
  await using setting = await setUp();
  const { ask, large } = setting;
  const absent = cidOf(text("nothing"));
  const ask2 = (body: unknown) =>
    ask("POST", "missing", { body: typeof body === "string" ? body : JSON.stringify(body) });
  const answer = await ask2({ cids: [absent, ABC, large, absent] });
  assert.deepEqual(await answer.json(), { missing: [absent, absent] });
  assert.deepEqual(await (await ask2({ cids: [] })).json(), { missing: [] });
  await refusal(await ask2({ cids: ["hello"] }), 422, "invalid_body", "cids");
  await refusal(await ask2({ blobs: [] }), 422, "invalid_body", "cids");
  await refusal(await ask2("{"), 400, "invalid_request");
  await refusal(await ask2({ cids: Array(10_001).fill(ABC) }), 422, "invalid_body");
  await refusal(await ask2(`{"cids": "${"x".repeat(2 << 20)}"}`), 413, "too_large");
});

Deno.test("a damaged blob is 500 integrity when it is small, and never whole when it is large", async () => {
  await using setting = await setUp();
  const { ask, store, root, served, large } = setting;
  const small = await store.put(text("to be damaged"));
  await damageObject(root, small, "flipped");
  await refusal(await ask("GET", small), 500, "integrity", small);
  await damageObject(root, large, "flipped");
  const request = `GET /v1/cas/${large} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
  const answer = await raw(served, request);
  assert.ok(answer.length < 400_000);
  // Once it is known, it is told before anything is sent.
  await until(
    "the damage is known",
    async () => (await raw(served, request)).startsWith("HTTP/1.1 500"),
  );
});

Deno.test("a store that fails is 503 with Retry-After, and names the CID", async () => {
  const failing = openMemory();
  const fail = () => Promise.reject(new SubletError("unavailable", "the disk is gone"));
  failing.getStream =
    failing.sizeOf =
    failing.put =
    failing.putStream =
    failing.missing =
      fail;
  await using scratch = await TempDir.make();
  await using served = await serveStore(failing, scratch.path);
  const ask = (method: string, path: string, body?: Uint8Array<ArrayBuffer> | string) =>
    fetch(`${served.url}/v1/cas/${path}`, { method, ...(body === undefined ? {} : { body }) });
  for (const body of [text("abc"), noise(1_000_000)]) {
    const answer = await ask("PUT", cidOf(body), body);
    assert.equal(answer.headers.get("retry-after"), "1");
    await refusal(answer, 503, "unavailable", cidOf(body), "the disk is gone");
  }
  await refusal(await ask("GET", ABC), 503, "unavailable", ABC);
  assert.equal((await ask("HEAD", ABC)).status, 503);
  await refusal(await ask("POST", "missing", '{"cids":[]}'), 503, "unavailable");
});

Deno.test("a failure of ours is 500 internal: the CID, but not its text, is told", async () => {
  const failing = openMemory();
  failing.getStream = () => Promise.reject(new Error("a secret of the server"));
  await using scratch = await TempDir.make();
  const events: unknown[] = [];
  const log = { event: (event: string, fields = {}) => void events.push({ event, ...fields }) };
  await using served = await serveStore(failing, scratch.path, { log });
  const answer = await fetch(`${served.url}/v1/cas/${ABC}`);
  const { code, message } = await answer.json();
  assert.deepEqual([answer.status, code], [500, "internal"]);
  assert.ok(message.includes(ABC) && !message.includes("secret"), message);
  assert.match(JSON.stringify(events), new RegExp(`${ABC}.*a secret of the server`));
});

Deno.test("a client that leaves in the middle of a PUT leaves nothing behind, and the log names the blob", async () => {
  const events: string[] = [];
  const log = {
    event: (event: string, fields = {}) => void events.push(JSON.stringify({ event, ...fields })),
  };
  await using setting = await setUp({ log });
  const { served, root, store } = setting;
  using connection = await Deno.connect({ hostname: served.host, port: served.port });
  const cid = cidOf(text("never sent whole"));
  const head = `PUT /v1/cas/${cid} HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n`;
  await connection.write(text(head + "x".repeat(500_000)));
  await until("the put has begun", async () => (await leftovers(root)).length === 1);
  connection.close();
  await until("the put has ended", async () => (await leftovers(root)).length === 0);
  await until("it is in the log", () => events.some((event) => event.includes(cid)));
  assert.equal(await store.has(cid), false);
});

Deno.test("a large blob arrives whole at clients that read slowly, and within the process", async () => {
  await using scratch = await TempDir.make();
  const store = await openDisk({ path: scratch.join("store") });
  await using served = await serveStore(store, scratch.path);
  const cid = await store.put(noise(20_000_000));
  const slowly = async () => {
    const answer = await fetch(`${served.url}/v1/cas/${cid}`);
    const hasher = createHasher();
    for await (const bytes of answer.body ?? []) {
      await new Promise((resolve) => setTimeout(resolve));
      hasher.update(bytes);
    }
    return cidOfDigest(hasher.digest());
  };
  assert.deepEqual(await Promise.all([slowly(), slowly(), slowly()]), [cid, cid, cid]);
  const inside = await casService(store).fetch(new Request(`http://store/v1/cas/${cid}`));
  assert.equal(cidOf(await inside.bytes()), cid);
});

Deno.test("a client that leaves in the middle of a GET does no harm", async () => {
  await using scratch = await TempDir.make();
  await using store = await openDisk({ path: scratch.join("store") });
  await using served = await serveStore(store, scratch.path);
  const cid = await store.put(noise(20_000_000));
  for (let i = 0; i < 5; i++) {
    using connection = await Deno.connect({ hostname: served.host, port: served.port });
    await connection.write(text(`GET /v1/cas/${cid} HTTP/1.1\r\nHost: x\r\n\r\n`));
    await connection.read(new Uint8Array(1000));
  }
  assert.equal((await served.cas.get(cid))?.length, 20_000_000);
  await checkCas(() => Promise.resolve(served.cas), { scratch: scratch.path });
});
