/** @module Tests of uploads in parts over real sockets: order, breaks, restarts, and senders that mean harm. */

import assert from "node:assert/strict";
import fc from "fast-check";
import {
  casService,
  cidOf,
  type DiskStore,
  openDisk,
  openMemory,
  Uploads,
  type UploadsOptions,
} from "../../lib/cas/mod.ts";
import { SubletError, systemClock } from "../../lib/home/mod.ts";
import { type Caller, serveHttp } from "../../lib/net/mod.ts";
import { TempDir, until } from "../kit/mod.ts";
import { leftovers } from "./disk_kit.ts";
import { raw } from "./http_kit.ts";

const PART = 128 * 1024;
const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};

/** Whoever says so in the header `token`. */
const who = {
  known: () => null,
  identify: (headers: Headers) =>
    Promise.resolve<Caller>({ name: headers.get("token") ?? "one", access: "worker", pool: null }),
};

interface Setting extends AsyncDisposable {
  readonly root: string;
  readonly store: DiskStore;
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly uploads: Uploads;
  begin(body: unknown, token?: string): Promise<Response>;
  ask(method: string, id: string, init?: RequestInit): Promise<Response>;
  send(id: string, from: number, bytes: Uint8Array<ArrayBuffer>, token?: string): Promise<Response>;
}

async function setUp(options: Partial<UploadsOptions> = {}, at?: string): Promise<Setting> {
  const stack = new AsyncDisposableStack();
  const root = at ?? stack.use(await TempDir.make()).join("store");
  const store = await openDisk({ path: root });
  const uploads = await Uploads.open(store, { directory: `${root}/none`, ...options });
  const service = casService(store, { who, uploads, limits: { stallMs: 20_000 } });
  const server = stack.use(
    await serveHttp({
      fetch: (request, peer) => service.fetch(request, peer),
      listen: { host: "127.0.0.1", port: 0 },
    }),
  );
  const ask = (method: string, id: string, init: RequestInit = {}) =>
    fetch(`${server.url}/v1/cas/uploads${id === "" ? "" : `/${id}`}`, { ...init, method });
  return {
    root,
    store,
    uploads,
    url: server.url,
    host: "127.0.0.1",
    port: server.addr?.port ?? 0,
    ask,
    begin: (body, token = "one") =>
      ask("POST", "", { body: JSON.stringify(body), headers: { token } }),
    send: (id, from, body, token = "one") =>
      ask("PATCH", id, { body, headers: { token, "upload-offset": String(from) } }),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function status(answer: Response | Promise<Response>): Promise<number> {
  const got = await answer;
  await got.body?.cancel();
  return got.status;
}

async function refused(answer: Promise<Response>, expected: number, code: string): Promise<string> {
  const got = await answer;
  const body = await got.json();
  assert.deepEqual([got.status, body.code], [expected, code], body.message);
  return body.message;
}

Deno.test("parts in any order, on connections of their own, come to the blob, which is not there before", async () => {
  await using setting = await setUp();
  const { begin, send, ask, store, root } = setting;
  const data = noise(9 * PART + 77);
  const cid = cidOf(data);
  const began = await begin({ cid, length: data.length });
  const state = await began.json();
  assert.equal(began.status, 201);
  assert.equal(began.headers.get("location"), `/v1/cas/uploads/${state.id}`);
  assert.equal(began.headers.get("upload-complete"), "?0");
  assert.deepEqual(state.missing, [[0, data.length]]);
  const cuts = [[6, 10], [0, 2], [4, 6]].map(([from, to]) => [
    (from ?? 0) * PART,
    Math.min(data.length, (to ?? 0) * PART),
  ]);
  const answers = await Promise.all(
    cuts.map(([from = 0, to = 0]) => send(state.id, from, data.slice(from, to))),
  );
  for (const answer of answers) assert.equal(await status(answer), 204);
  const now = await ask("GET", state.id);
  assert.equal(now.headers.get("upload-offset"), String(2 * PART));
  assert.deepEqual((await now.json()).missing, [[2 * PART, 4 * PART]]);
  const head = await ask("HEAD", state.id);
  assert.deepEqual([head.status, head.headers.get("upload-offset")], [200, String(2 * PART)]);
  assert.equal(await store.has(cid), false);
  const last = await send(state.id, 2 * PART, data.slice(2 * PART, 4 * PART));
  assert.equal(last.headers.get("upload-complete"), "?1");
  assert.equal(await status(last), 201);
  assert.deepEqual(await store.get(cid), data);
  // Whoever lost that answer asks again.
  const after = await ask("HEAD", state.id);
  assert.equal(after.headers.get("upload-complete"), "?1");
  assert.equal((await (await begin({ cid, length: data.length })).json()).complete, true);
  assert.equal(await store.integrity(cid), "ok");
  assert.deepEqual(await leftovers(root), []);
});

Deno.test("a sender that lost its connection sends only the rest, after a restart of the server, too", async () => {
  await using scratch = await TempDir.make();
  const data = noise(40 * PART);
  const cid = cidOf(data);
  let id = "";
  {
    await using setting = await setUp({}, scratch.join("store"));
    id = (await (await setting.begin({ cid, length: data.length })).json()).id;
    using connection = await Deno.connect({ hostname: setting.host, port: setting.port });
    const head = `PATCH /v1/cas/uploads/${id} HTTP/1.1\r\nHost: x\r\nUpload-Offset: 0\r\n` +
      `Content-Length: ${data.length}\r\n\r\n`;
    await connection.write(new TextEncoder().encode(head));
    const sent = 36 * PART + 5000;
    for (let at = 0; at < sent;) at += await connection.write(data.subarray(at, sent));
    await until("most of it came", async () => {
      const offset = (await setting.ask("HEAD", id)).headers.get("upload-offset");
      return Number(offset) >= 32 * PART;
    });
    connection.close();
    await until("what came is kept", async () => {
      const offset = (await setting.ask("HEAD", id)).headers.get("upload-offset");
      return Number(offset) === 36 * PART;
    });
    assert.equal(await setting.store.has(cid), false);
  }
  await using setting = await setUp({}, scratch.join("store"));
  const again = await (await setting.begin({ cid, length: data.length })).json();
  assert.deepEqual([again.id, again.missing], [id, [[36 * PART, data.length]]]);
  assert.equal(await status(setting.send(id, 36 * PART, data.slice(36 * PART))), 201);
  assert.deepEqual(await setting.store.get(cid), data);
});

Deno.test("parts of any size, order, overlap and break come to the blob", async () => {
  await using setting = await setUp();
  const { begin, send } = setting;
  const part = fc.tuple(fc.nat(11), fc.integer({ min: 1, max: 5 }));
  await fc.assert(
    fc.asyncProperty(fc.array(part, { maxLength: 12 }), fc.nat(PART - 1), async (parts, tail) => {
      const data = noise(11 * PART + tail + 1);
      const cid = cidOf(data);
      const { id } = await (await begin({ cid, length: data.length })).json();
      const results = await Promise.all(parts.map(async ([first, count]) => {
        const to = Math.min(data.length, (first + count) * PART);
        return await status(send(id, first * PART, data.slice(first * PART, to)));
      }));
      for (const result of results) assert.ok([201, 204, 409].includes(result), String(result));
      const { missing } = await (await begin({ cid, length: data.length })).json();
      for (const [from, to] of missing) await status(send(id, from, data.slice(from, to)));
      assert.deepEqual(await setting.store.get(cid), data);
    }),
    { numRuns: 15 },
  );
  assert.deepEqual(await leftovers(setting.root), []);
});

Deno.test("a part with another place, length or name than can be is refused, and changes nothing", async () => {
  await using setting = await setUp();
  const { begin, send, ask } = setting;
  const data = noise(3 * PART + 10);
  const cid = cidOf(data);
  const { id } = await (await begin({ cid, length: data.length })).json();
  const one = data.slice(0, PART);
  await refused(send(id, 1, one), 409, "conflict");
  await refused(send(id, 0, data.slice(0, PART - 1)), 409, "conflict");
  await refused(send(id, 3 * PART, one), 400, "invalid_request");
  await refused(send(id, 2 ** 49, one), 400, "invalid_request");
  await refused(ask("PATCH", id, { body: one }), 400, "invalid_request");
  for (const offset of ["-1", "0x10", "1e3", "9".repeat(30), "", "0, 0"]) {
    const init = { body: one, headers: { "upload-offset": offset } };
    await refused(ask("PATCH", id, init), 400, "invalid_request");
  }
  const chunked = await raw(
    setting,
    `PATCH /v1/cas/uploads/${id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nUpload-Offset: 0\r\n` +
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
  );
  assert.match(chunked, /^HTTP\/1\.1 411 /);
  for (const other of ["0".repeat(32), "x", "%2e%2e%2f", `${id}x`, id.toUpperCase()]) {
    assert.equal(await status(ask("HEAD", other)), 404, other);
  }
  assert.equal(await status(ask("GET", `${id}/more`)), 404);
  assert.equal(await status(ask("PUT", id, { body: one })), 405);
  assert.equal(await status(ask("GET", "")), 405);
  assert.deepEqual((await (await ask("GET", id)).json()).missing, [[0, data.length]]);
});

Deno.test("what is no question about an upload is refused, and what the store has is complete at once", async () => {
  await using setting = await setUp();
  const { begin, store } = setting;
  const cid = await store.put(noise(10));
  assert.equal((await (await begin({ cid, length: 10 })).json()).complete, true);
  const empty = cidOf(new Uint8Array(0));
  assert.equal((await (await begin({ cid: empty, length: 0 })).json()).complete, true);
  const other = cidOf(noise(9));
  for (const body of [{}, { cid: "x", length: 1 }, { cid: other }, { cid: other, length: -1 }]) {
    await refused(begin(body), 422, "invalid_body");
  }
  await refused(begin({ cid: other, length: 2 ** 60 }), 422, "invalid_body");
  await refused(begin({ cid: other, length: 0 }), 400, "cid_mismatch");
});

Deno.test("another token's upload is not there", async () => {
  await using setting = await setUp();
  const { begin, send, ask } = setting;
  const data = noise(PART);
  const cid = cidOf(data);
  const { id } = await (await begin({ cid, length: PART })).json();
  const two = { headers: { token: "two" } };
  assert.equal(await status(ask("GET", id, two)), 404);
  assert.equal(await status(ask("DELETE", id, two)), 404);
  await refused(send(id, 0, data, "two"), 404, "not_found");
  const own = await (await begin({ cid, length: PART }, "two")).json();
  assert.notEqual(own.id, id);
  assert.equal(await status(send(id, 0, data)), 201);
  assert.equal(await status(ask("GET", id, two)), 404);
  // The other one is done, too, when it says that it sends nothing more.
  assert.equal((await (await begin({ cid, length: PART }, "two")).json()).complete, true);
});

Deno.test("bytes that are another blob's are 400 cid_mismatch, and nothing of them is kept", async () => {
  await using setting = await setUp();
  const { begin, send, ask, store, root } = setting;
  for (const sent of [noise(2 * PART), new Uint8Array(2 * PART)]) {
    const cid = cidOf(noise(2 * PART));
    const { id } = await (await begin({ cid, length: 2 * PART })).json();
    assert.equal(await status(send(id, 0, sent.slice(0, PART))), 204);
    assert.match(await refused(send(id, PART, sent.slice(PART)), 400, "cid_mismatch"), /bafkr4i/);
    assert.deepEqual([await store.has(cid), await store.has(cidOf(sent))], [false, false]);
    assert.equal(await status(ask("GET", id)), 404);
  }
  assert.deepEqual(await leftovers(root), []);
  const names = await Array.fromAsync(Deno.readDir(`${root}/uploads`));
  assert.deepEqual(names, []);
});

Deno.test("two senders of one part: the later one takes over, and the blob is right", async () => {
  await using setting = await setUp();
  const { begin, send } = setting;
  const data = noise(16 * PART);
  const cid = cidOf(data);
  const { id } = await (await begin({ cid, length: data.length })).json();
  const head = `PATCH /v1/cas/uploads/${id} HTTP/1.1\r\nHost: x\r\nUpload-Offset: 0\r\n` +
    `Connection: close\r\nContent-Length: ${data.length}\r\n\r\n`;
  using connection = await Deno.connect({ hostname: setting.host, port: setting.port });
  await connection.write(new TextEncoder().encode(head));
  for (let at = 0; at < 10 * PART;) at += await connection.write(data.subarray(at, 10 * PART));
  await until(
    "it came",
    async () => Number((await setting.ask("HEAD", id)).headers.get("upload-offset")) >= 4 * PART,
  );
  const later = send(id, 0, data);
  const bytes = new Uint8Array(64);
  const count = await connection.read(bytes);
  // Deno may cut the connection rather than answer while more is announced.
  if (count !== null) {
    assert.match(new TextDecoder().decode(bytes.subarray(0, count)), /^HTTP\/1\.1 409 /);
  }
  assert.equal(await status(later), 201);
  assert.deepEqual(await setting.store.get(cid), data);
});

Deno.test("a token has a bounded number of uploads and bytes in them, and old ones make room", async () => {
  let now = 1_000_000;
  const clock = { ...systemClock, now: () => now };
  const options = { perToken: 2, bytesPerToken: 10 * PART, maxAgeMs: 5000, clock };
  await using setting = await setUp(options);
  const { begin, ask } = setting;
  const some = (length: number) => ({ cid: cidOf(noise(20)), length });
  const first = await (await begin(some(PART))).json();
  await refused(begin(some(11 * PART)), 413, "too_large");
  await refused(begin(some(10 * PART)), 429, "busy");
  assert.equal(await status(begin(some(PART))), 201);
  const busy = await begin(some(PART));
  assert.deepEqual([busy.status, busy.headers.get("retry-after")], [429, "10"]);
  await busy.body?.cancel();
  assert.equal(await status(begin(some(PART), "two")), 201);
  assert.equal(await status(ask("DELETE", first.id)), 204);
  assert.equal(await status(ask("GET", first.id)), 404);
  assert.equal(await status(begin(some(PART))), 201);
  now += 6000;
  assert.equal(await status(begin(some(9 * PART))), 201);
});

Deno.test("what a crash left of uploads is swept, and what is of use stays", async () => {
  await using scratch = await TempDir.make();
  const root = scratch.join("store");
  const data = noise(2 * PART);
  const cid = cidOf(data);
  {
    await using setting = await setUp({}, root);
    const { id } = await (await setting.begin({ cid, length: data.length })).json();
    await status(setting.send(id, 0, data.slice(0, PART)));
  }
  const place = `${root}/uploads`;
  const write = (name: string, text: string) => Deno.writeTextFile(`${place}/${name}`, text);
  await write(`${"a".repeat(32)}.part`, "no word of what it is");
  await write(`${"b".repeat(32)}.json`, JSON.stringify({ cid, length: 5, token: "one" }));
  await write(`${"c".repeat(32)}.json`, "{");
  await write(`${"c".repeat(32)}.part`, "");
  await write(`${"d".repeat(32)}.json`, JSON.stringify({ cid, length: 7 * PART, token: "one" }));
  await write(`${"d".repeat(32)}.part`, "cut short");
  await write("what-is-this", "not ours");
  await using setting = await setUp({}, root);
  const { id, missing } = await (await setting.begin({ cid, length: data.length })).json();
  assert.deepEqual(missing, [[PART, 2 * PART]]);
  const cut = await setting.begin({ cid, length: 7 * PART });
  assert.deepEqual((await cut.json()).missing, [[0, 7 * PART]]);
  assert.equal(await status(setting.ask("GET", "d".repeat(32))), 404);
  assert.equal(await status(setting.send(id, PART, data.slice(PART))), 201);
  const left = (await Array.fromAsync(Deno.readDir(place))).map(({ name }) => name);
  for (const letter of "abc") assert.ok(!left.some((name) => name.startsWith(letter.repeat(32))));
  assert.ok(left.includes("what-is-this"));
});

Deno.test("a file that was changed under way is no blob", async () => {
  await using scratch = await TempDir.make();
  const root = scratch.join("store");
  const data = noise(3 * PART);
  const cid = cidOf(data);
  let id = "";
  {
    await using setting = await setUp({}, root);
    id = (await (await setting.begin({ cid, length: data.length })).json()).id;
    await status(setting.send(id, 0, data.slice(0, 2 * PART)));
  }
  const path = `${root}/uploads/${id}.part`;
  const bytes = await Deno.readFile(path);
  bytes[5000] = (bytes[5000] ?? 0) ^ 1;
  await Deno.writeFile(path, bytes);
  await using setting = await setUp({}, root);
  await refused(setting.send(id, 2 * PART, data.slice(2 * PART)), 400, "cid_mismatch");
  assert.equal(await setting.store.has(cid), false);
});

Deno.test("a file that lost its start is sent again where it has to be, and stored right", async () => {
  for (const data of [noise(3 * PART), new Uint8Array(3 * PART).fill(7)]) {
    for (const lost of [10, 5000]) {
      await using scratch = await TempDir.make();
      const root = scratch.join("store");
      const cid = cidOf(data);
      let id = "";
      {
        await using setting = await setUp({}, root);
        id = (await (await setting.begin({ cid, length: data.length })).json()).id;
        await status(setting.send(id, 0, data.slice(0, 2 * PART)));
      }
      {
        using file = await Deno.open(`${root}/uploads/${id}.part`, { write: true });
        await file.write(new Uint8Array(lost));
      }
      await using setting = await setUp({}, root);
      const { missing } = await (await setting.begin({ cid, length: data.length })).json();
      const expected = [[2 * PART, 3 * PART]];
      assert.deepEqual(missing, lost === 10 ? expected : [[0, PART], ...expected]);
      for (const [from = 0, to = 0] of missing) {
        await status(setting.send(id, from, data.slice(from, to)));
      }
      assert.equal(await setting.store.integrity(cid), "ok");
    }
  }
});

Deno.test("a store that cannot store keeps the upload, and an empty last part tries again", async () => {
  await using scratch = await TempDir.make();
  const store = openMemory();
  const put = store.putStream.bind(store);
  let full = true;
  store.putStream = (source, limits) =>
    full ? Promise.reject(new SubletError("unavailable", "the disk is full")) : put(source, limits);
  const uploads = await Uploads.open(store, { directory: scratch.join("uploads") });
  const service = casService(store, { uploads });
  const ask = (method: string, path: string, body?: BodyInit, headers: HeadersInit = {}) =>
    Promise.resolve(
      service.fetch(
        new Request(`http://store/v1/cas/uploads${path}`, {
          method,
          headers,
          ...(body === undefined ? {} : { body }),
        }),
      ),
    );
  const data = noise(PART + 5);
  const cid = cidOf(data);
  const { id } = await (await ask("POST", "", JSON.stringify({ cid, length: data.length }))).json();
  const headers = { "upload-offset": "0", "content-length": String(data.length) };
  const said = await refused(ask("PATCH", `/${id}`, data, headers), 503, "unavailable");
  assert.ok(said.includes(cid), said);
  assert.deepEqual((await (await ask("GET", `/${id}`)).json()).missing, []);
  full = false;
  const rest = { "upload-offset": String(data.length), "content-length": "0" };
  assert.equal((await ask("PATCH", `/${id}`, "", rest)).status, 201);
  assert.deepEqual(await store.get(cid), data);
  assert.deepEqual(await Array.fromAsync(Deno.readDir(scratch.join("uploads"))), []);
});

Deno.test("a blob that compresses is stored compressed, one that does not as it came", async () => {
  await using setting = await setUp();
  const { begin, send, store } = setting;
  const text = new TextEncoder().encode("all work and no play. ".repeat(20_000)).slice(0, 3 * PART);
  for (const data of [text, noise(3 * PART)]) {
    const cid = cidOf(data);
    const before = (await store.usage()).bytes;
    const { id } = await (await begin({ cid, length: data.length })).json();
    assert.equal(await status(send(id, 0, data)), 201);
    const grown = (await store.usage()).bytes - before;
    assert.ok(data === text ? grown < 10_000 : grown > data.length, String(grown));
    assert.deepEqual(await store.get(cid), data);
  }
});
