/** @module Tests of what the store's HTTP service bounds: sizes, rates, how many, and how long. */

import assert from "node:assert/strict";
import { casService, cidOf, openDisk, type ServiceLimits } from "../../lib/cas/mod.ts";
import { type Clock, systemClock } from "../../lib/home/mod.ts";
import { type Caller, serveHttp, type Who } from "../../lib/net/mod.ts";
import { TempDir, until } from "../kit/mod.ts";
import { leftovers } from "./disk_kit.ts";
import { raw } from "./http_kit.ts";

const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};

const who: Who = {
  known: () => null,
  identify: (headers) =>
    Promise.resolve<Caller>({ name: headers.get("token") ?? "one", access: "worker", pool: null }),
};

async function setUp(limits: ServiceLimits, clock: Clock = systemClock) {
  const stack = new AsyncDisposableStack();
  const root = stack.use(await TempDir.make()).join("store");
  const store = await openDisk({ path: root });
  const events: string[] = [];
  const log = {
    event: (event: string, fields = {}) => void events.push(JSON.stringify({ event, ...fields })),
  };
  const service = casService(store, { limits, who, clock, log });
  const server = stack.use(
    await serveHttp({
      fetch: (request, peer) => service.fetch(request, peer),
      listen: { host: "127.0.0.1", port: 0 },
    }),
  );
  const put = (body: Uint8Array<ArrayBuffer>, token = "one", cid: string = cidOf(body)) =>
    fetch(`${server.url}/v1/cas/${cid}`, { method: "PUT", body, headers: { token } });
  const get = (cid: string, token = "one") =>
    fetch(`${server.url}/v1/cas/${cid}`, { headers: { token } });
  return {
    root,
    store,
    events,
    host: "127.0.0.1",
    port: server.addr?.port ?? 0,
    put,
    get,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function refused(answer: Promise<Response>, status: number, code: string) {
  const got = await answer;
  const body = await got.json();
  assert.deepEqual([got.status, body.code], [status, code], body.message);
  return { headers: got.headers, message: String(body.message) };
}

async function ok(answer: Promise<Response>): Promise<void> {
  const got = await answer;
  await got.body?.cancel();
  assert.ok(got.ok, String(got.status));
}

/** A put of `announced` bytes of which `sent` are sent; the connection stays open. */
async function begin(at: { host: string; port: number }, announced: number, sent: number) {
  const connection = await Deno.connect({ hostname: at.host, port: at.port });
  const head = `PUT /v1/cas/${cidOf(noise(10))} HTTP/1.1\r\nHost: x\r\n` +
    `Content-Length: ${announced}\r\n\r\n`;
  await connection.write(new TextEncoder().encode(head));
  const bytes = noise(sent);
  for (let done = 0; done < sent;) done += await connection.write(bytes.subarray(done));
  return connection;
}

/** What comes until the end of a refusal: Deno leaves a connection open whose sender still owes a part of its body. */
async function readRefusal(connection: Deno.Conn): Promise<string> {
  const parts: string[] = [];
  const buffer = new Uint8Array(65_536);
  while (true) {
    if (parts.at(-1)?.endsWith("}")) return parts.join("");
    const count = await connection.read(buffer).catch(() => null);
    if (count === null) return parts.join("");
    parts.push(new TextDecoder().decode(buffer.subarray(0, count)));
  }
}

Deno.test("an upload of which no more comes ends with 408, and leaves nothing", async () => {
  await using setting = await setUp({ stallMs: 300, transfersPerToken: 1 });
  for (const [announced, sent] of [[50_000, 0], [50_000, 40_000], [900_000, 500_000]] as const) {
    using connection = await begin(setting, announced, sent);
    const answer = await readRefusal(connection);
    assert.match(answer, /^HTTP\/1\.1 408 [\s\S]*"code":"slow_request"/, `${announced} ${sent}`);
    await until("nothing is left", async () => (await leftovers(setting.root)).length === 0);
  }
  // Its slot is free again.
  await ok(setting.put(noise(500_000)));
  assert.equal(setting.events.some((event) => event.includes("cas.upload_ended")), true);
});

Deno.test("an upload that drips is stalled, too", async () => {
  await using setting = await setUp({ stallMs: 300 });
  using connection = await begin(setting, 200_000, 100_000);
  let over = false;
  const drip = (async () => {
    while (!over) {
      await connection.write(new Uint8Array(1)).catch(() => over = true);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const answer = await readRefusal(connection);
  over = true;
  await drip;
  assert.match(answer, /^HTTP\/1\.1 408 /);
});

Deno.test("a sender that ends its side before all is sent gets 400, whatever the size", async () => {
  await using setting = await setUp({});
  for (const [announced, sent] of [[1000, 10], [60_000, 59_999], [900_000, 500_000]] as const) {
    using connection = await begin(setting, announced, sent);
    await (connection as Deno.TcpConn).closeWrite();
    const answer = await readRefusal(connection);
    // Deno may close the connection without a word; what it says is 400.
    if (answer !== "") assert.match(answer, /^HTTP\/1\.1 400 [\s\S]*"code":"invalid_request"/);
    await until("nothing is left", async () => (await leftovers(setting.root)).length === 0);
  }
  await until(
    "the log tells",
    () => setting.events.filter((e) => e.includes("broke off")).length === 3,
  );
  assert.equal(setting.events.some((event) => event.includes("http.failed")), false);
});

Deno.test("a token has so many transfers at once, and another one its own", async () => {
  await using setting = await setUp({ transfersPerToken: 2, transfers: 3 });
  using first = await begin(setting, 900_000, 100_000);
  using second = await begin(setting, 900_000, 100_000);
  await until("both are under way", async () => (await leftovers(setting.root)).length === 2);
  const busy = await refused(setting.put(noise(300_000)), 429, "busy");
  assert.equal(busy.headers.get("retry-after"), "1");
  await ok(setting.put(noise(300_000), "two"));
  // Small ones are no transfers.
  await ok(setting.put(noise(300)));
  const text = `PUT /v1/cas/${cidOf(noise(9))} HTTP/1.1\r\nHost: x\r\nToken: two\r\n` +
    "Content-Length: 900000\r\n\r\n";
  using third = await Deno.connect({ hostname: setting.host, port: setting.port });
  await third.write(new TextEncoder().encode(text));
  await third.write(noise(100_000));
  await until("the third is under way", async () => (await leftovers(setting.root)).length === 3);
  const full = await refused(setting.put(noise(300_000), "three"), 503, "unavailable");
  assert.equal(full.headers.get("retry-after"), "1");
  first.close();
  await until("a place is free", async () => {
    const answer = await setting.put(noise(300_000), "three");
    await answer.body?.cancel();
    return answer.status === 201;
  });
  void second;
});

Deno.test("a download holds its place until it ends or its client leaves", async () => {
  await using setting = await setUp({ transfersPerToken: 1 });
  const cid = await setting.store.put(noise(20_000_000));
  const head = `GET /v1/cas/${cid} HTTP/1.1\r\nHost: x\r\n\r\n`;
  using connection = await Deno.connect({ hostname: setting.host, port: setting.port });
  await connection.write(new TextEncoder().encode(head));
  await connection.read(new Uint8Array(100));
  await refused(setting.get(cid), 429, "busy");
  connection.close();
  await until("the place is free", async () => {
    const answer = await setting.get(cid);
    const length = (await answer.bytes()).length;
    return answer.status === 200 && length === 20_000_000;
  });
  const again = await setting.get(cid);
  assert.equal((await again.bytes()).length, 20_000_000);
});

Deno.test("a token's bytes a second pace its transfers, and refuse it once they are used up", async () => {
  let now = 0;
  let slept = 0;
  const clock: Clock = {
    ...systemClock,
    monotonic: () => now,
    sleep: (ms) => {
      slept += ms;
      now += ms;
      return Promise.resolve();
    },
  };
  await using setting = await setUp({ bytesPerSecond: 1_000_000 }, clock);
  await ok(setting.put(noise(10_000_000)));
  assert.ok(slept >= 8_900 && slept < 9_600, `${slept} ms`);
  now += 10_000;
  const cid = await setting.store.put(noise(40_000));
  for (let i = 0; i < 25; i++) await ok(setting.get(cid));
  await ok(setting.get(cid));
  const busy = await refused(setting.get(cid), 429, "busy");
  assert.equal(busy.headers.get("retry-after"), "1");
  await refused(setting.put(noise(10)), 429, "busy");
  await ok(setting.get(cid, "two"));
  now += 1_000;
  await ok(setting.get(cid));
});

Deno.test("a token's bytes of a day bound its uploads alone, and come back over the day", async () => {
  let now = 0;
  const clock: Clock = { ...systemClock, monotonic: () => now };
  await using setting = await setUp({ bytesPerDay: 1_000_000 }, clock);
  const data = noise(600_000);
  await ok(setting.put(data));
  await ok(setting.put(noise(600_000)));
  const busy = await refused(setting.put(noise(10)), 429, "busy");
  assert.ok(Number(busy.headers.get("retry-after")) > 10_000);
  assert.match(busy.message, /one has used up what it may upload in a day/);
  await ok(setting.get(cidOf(data)));
  await ok(setting.put(noise(10), "two"));
  now += 12 * 60 * 60 * 1000;
  await ok(setting.put(noise(10)));
});

Deno.test("a blob beyond the bound or the free disk is 413 before it is sent, with room kept for what comes", async () => {
  let free = 1_000_000;
  await using setting = await setUp({ maxBytes: 700_000, freeBytes: () => Promise.resolve(free) });
  const large = await refused(setting.put(noise(700_001)), 413, "too_large");
  assert.match(large.message, /takes no more than 700000/);
  using connection = await begin(setting, 600_000, 200_000);
  await until("it is under way", async () => (await leftovers(setting.root)).length === 1);
  const full = await refused(setting.put(noise(650_000)), 413, "too_large");
  assert.match(full.message, /disk has \d+ left for it/);
  connection.close();
  await until("its room is free", async () => {
    const answer = await setting.put(noise(650_000));
    await answer.body?.cancel();
    return answer.status === 201;
  });
  free = 100_000;
  await refused(setting.put(noise(200_000)), 413, "too_large");
  await ok(setting.put(noise(200)));
});

Deno.test("headers that nobody should send are refused or passed over, and the server goes on", async () => {
  await using setting = await setUp({});
  const cid = await setting.store.put(noise(3000));
  const ask = (method: string, lines: string[]) =>
    raw(
      setting,
      [`${method} /v1/cas/${cid} HTTP/1.1`, "Host: x", "Connection: close", ...lines, "", ""]
        .join("\r\n"),
    );
  for (const length of ["-1", "+5", "0x10", "1e3", "99999999999999999999", "5, 6", "abc"]) {
    const answer = await ask("PUT", [`Content-Length: ${length}`]);
    assert.match(answer, /^(HTTP\/1\.1 4\d\d |$)/, length);
  }
  for (
    const lines of [
      [`Range: bytes=${"9".repeat(400)}-`],
      [`Range: bytes=${"0-1,".repeat(5000)}0-1`],
      [`If-None-Match: ${'"x",'.repeat(5000)}"x"`],
      [`Accept-Encoding: ${"zstd;q=0,".repeat(5000)}br`],
      ["Accept-Encoding: zstd;q=NaN"],
      ["Range: bytes=0-0", "Range: bytes=5-9"],
      ["Content-Length: 4", "", "abcd"],
      ["Authorization: Bearer " + "x".repeat(20_000)],
      ["Expect: 200-ok"],
    ]
  ) {
    const answer = await ask("GET", lines);
    assert.match(answer, /^(HTTP\/1\.1 [24]\d\d |$)/, lines[0]?.slice(0, 60));
  }
  for (
    const path of ["/v1/cas/../../etc/passwd", "/v1/cas//", "/v1/cas/%00", "*", "/v1/cas", "/"]
  ) {
    const answer = await raw(
      setting,
      `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    );
    assert.match(answer, /^HTTP\/1\.1 40[04] /, path);
  }
  await ok(setting.get(cid));
});
