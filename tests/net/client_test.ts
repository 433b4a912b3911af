// deno-lint-ignore-file no-non-null-assertion
import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import {
  type HttpClient,
  type HttpResponse,
  openHttpClient,
  serveHttp,
} from "../../lib/net/mod.ts";
import { TempDir, until } from "../kit/mod.ts";

const LOOPBACK = { host: "127.0.0.1", port: 0 };
const unreachable = (text: RegExp) => (error: unknown) => {
  assert.ok(isError(error, "unreachable"), String(error));
  assert.match(error.message, text);
  return true;
};

async function text(response: HttpResponse): Promise<string> {
  return new TextDecoder().decode(await response.bytes());
}

async function body(client: HttpClient, path = "/"): Promise<string> {
  return await text(await client.request({ method: "GET", path }));
}

/** Says what it got: method, path, some headers and the body. */
async function echo(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const bytes = await request.bytes();
  return Response.json({
    method: request.method,
    path: pathname + search,
    authorization: request.headers.get("authorization"),
    length: request.headers.get("content-length"),
    chunked: request.headers.has("transfer-encoding"),
    x: request.headers.get("x-test"),
    body: bytes.length < 100 ? new TextDecoder().decode(bytes) : bytes.length,
  });
}

function streamOf(...pieces: string[]): ReadableStream<Uint8Array> {
  return ReadableStream.from(pieces.map((piece) => new TextEncoder().encode(piece)));
}

/** A server that speaks raw TCP: `serve` gets each connection, counted from 1. */
function rawServer(serve: (connection: Deno.TcpConn, count: number) => Promise<void>) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections: Deno.TcpConn[] = [];
  const running: Promise<void>[] = [];
  const accepting = (async () => {
    for await (const connection of listener) {
      connections.push(connection);
      running.push(serve(connection, connections.length).catch(() => {}));
    }
  })();
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    get count() {
      return connections.length;
    },
    async [Symbol.asyncDispose]() {
      listener.close();
      for (const connection of connections) {
        try {
          connection.close();
        } catch {
          // It closed itself.
        }
      }
      await accepting;
      await Promise.all(running);
    },
  };
}

/** Read one request without a body, or with a short one, from a raw connection. Null at its end. */
async function readRequest(connection: Deno.TcpConn): Promise<string | null> {
  const buffer = new Uint8Array(65_536);
  const length = await connection.read(buffer);
  return length === null ? null : new TextDecoder().decode(buffer.subarray(0, length));
}

const write = (connection: Deno.TcpConn, data: string) =>
  connection.write(new TextEncoder().encode(data));

Deno.test("a request carries its method, path, query, headers, bytes and the token", async () => {
  await using server = await serveHttp({ fetch: echo, listen: LOOPBACK });
  using client = openHttpClient({ server: server.url, token: "slt_x" });
  assert.equal(client.url, server.url);
  const response = await client.request({
    method: "POST",
    path: "/a/b?c=d",
    headers: { "x-test": "yes" },
    body: new TextEncoder().encode("hello"),
  });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type") ?? "", /json/);
  assert.deepEqual(JSON.parse(await text(response)), {
    method: "POST",
    path: "/a/b?c=d",
    authorization: "Bearer slt_x",
    length: "5",
    chunked: false,
    x: "yes",
    body: "hello",
  });
});

Deno.test("a server's path comes before every request's", async () => {
  await using server = await serveHttp({ fetch: echo, listen: LOOPBACK });
  using client = openHttpClient({ server: `${server.url}/sub/let/` });
  assert.equal(client.url, `${server.url}/sub/let`);
  assert.equal(JSON.parse(await body(client, "/v1/x")).path, "/sub/let/v1/x");
});

Deno.test("a stream is sent with its exact length, never chunked, over TCP and a Unix socket", async () => {
  await using dir = await TempDir.make();
  await using tcp = await serveHttp({ fetch: echo, listen: LOOPBACK });
  await using unix = await serveHttp({ fetch: echo, unix: dir.join("s") });
  for (const server of [tcp.url, unix.url, dir.join("s")]) {
    using client = openHttpClient({ server });
    const put = async (stream: ReadableStream<Uint8Array>, length: number) => {
      const response = await client.request({ method: "PUT", path: "/", body: { stream, length } });
      const { length: sent, chunked, body } = JSON.parse(await text(response));
      return [sent, chunked, body];
    };
    assert.deepEqual(await put(streamOf("ab", "", "cde"), 5), ["5", false, "abcde"]);
    assert.deepEqual(await put(streamOf(), 0), ["0", false, ""]);
    const big = new Uint8Array(5_000_000).fill(7);
    assert.deepEqual(await put(new Blob([big]).stream(), big.length), [
      "5000000",
      false,
      5_000_000,
    ]);
  }
});

Deno.test("a stream of another length than announced is `invalid_request`, and never a whole request", async () => {
  let whole = 0;
  await using server = await serveHttp({
    listen: LOOPBACK,
    async fetch(request) {
      await request.bytes();
      whole++;
      return new Response();
    },
  });
  using client = openHttpClient({ server: server.url });
  for (const length of [4, 6]) {
    await assert.rejects(
      client.request({ method: "PUT", path: "/", body: { stream: streamOf("abc", "de"), length } }),
      (error) => isError(error, "invalid_request") && /5|4|6/.test(error.message),
    );
  }
  assert.equal(whole, 0);
});

Deno.test("a stream that fails while it is sent fails the request with its own error", async () => {
  await using server = await serveHttp({ fetch: echo, listen: LOOPBACK });
  using client = openHttpClient({ server: server.url });
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.error(new Error("the disk broke"));
    },
  });
  await assert.rejects(
    client.request({ method: "PUT", path: "/", body: { stream, length: 10 } }),
    /the disk broke/,
  );
  assert.equal(JSON.parse(await body(client)).method, "GET");
});

Deno.test("answers without a body end: HEAD, 204, 304, and an empty 200", async () => {
  await using server = await serveHttp({
    listen: LOOPBACK,
    fetch(request) {
      const status = Number(new URL(request.url).pathname.slice(1));
      const headers = { "content-length": "1000" };
      if (request.method === "HEAD") return new Response(null, { status, headers });
      return new Response(null, { status });
    },
  });
  using client = openHttpClient({ server: server.url });
  for (
    const [method, path] of [["HEAD", "/200"], ["HEAD", "/404"], ["GET", "/204"], ["GET", "/304"], [
      "POST",
      "/200",
    ]] as const
  ) {
    for (const take of ["bytes", "discard", "stream"] as const) {
      const response = await client.request({ method, path });
      assert.equal(response.status, Number(path.slice(1)));
      const taken = await response[take]();
      if (taken instanceof Uint8Array) assert.equal(taken.length, 0);
      if (taken instanceof ReadableStream) {
        assert.equal((await new Response(taken).bytes()).length, 0);
      }
    }
  }
});

Deno.test("any status is an answer, and a redirect is not followed", async () => {
  await using server = await serveHttp({
    listen: LOOPBACK,
    fetch: () =>
      new Response("elsewhere", { status: 307, headers: { location: "http://192.0.2.1/" } }),
  });
  using client = openHttpClient({ server: server.url });
  const response = await client.request({ method: "GET", path: "/" });
  assert.equal(response.status, 307);
  assert.equal(response.headers.get("location"), "http://192.0.2.1/");
  assert.equal(await text(response), "elsewhere");
});

Deno.test("bytes arrive as they were sent, with or without a length", async () => {
  const data = new Uint8Array(3_000_000).map((_, index) => index * 7 % 256);
  await using server = await serveHttp({
    listen: LOOPBACK,
    fetch: ({ url }) => new Response(url.endsWith("/length") ? data : new Blob([data]).stream()),
  });
  using client = openHttpClient({ server: server.url });
  for (const path of ["/length", "/chunked"]) {
    assert.deepEqual(await (await client.request({ method: "GET", path })).bytes(), data);
    const stream = (await client.request({ method: "GET", path })).stream();
    assert.deepEqual(await new Response(stream as BodyInit).bytes(), data);
  }
});

Deno.test("requests one after another share connections, also after discarded answers", async () => {
  const ports = new Set<number>();
  await using server = Deno.serve(
    { ...LOOPBACK, hostname: "127.0.0.1", onListen() {} },
    (_, info) => {
      ports.add(info.remoteAddr.port);
      return new Response("x".repeat(1000));
    },
  );
  using client = openHttpClient({ server: `http://127.0.0.1:${server.addr.port}` });
  for (let i = 0; i < 20; i++) {
    const response = await client.request({ method: "GET", path: "/" });
    if (i % 2 === 0) await response.bytes();
    else await response.discard();
  }
  // A second one is opened when a request comes before the first is noticed to be free.
  assert.ok(ports.size <= 2, `${ports.size} connections`);
});

Deno.test("a hundred requests at once are all answered with their own", async () => {
  await using server = await serveHttp({ fetch: echo, listen: LOOPBACK });
  using client = openHttpClient({ server: server.url });
  const paths = Array.from({ length: 100 }, (_, index) => `/${index}`);
  const got = await Promise.all(
    paths.map(async (path) => JSON.parse(await body(client, path)).path),
  );
  assert.deepEqual(got, paths);
});

Deno.test("a connection that the server closed while it was idle costs a second try, not an error", async () => {
  await using server = rawServer(async (connection, count) => {
    await readRequest(connection);
    await write(connection, `HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n${count}`);
    await readRequest(connection);
    connection.close();
  });
  using client = openHttpClient({ server: server.url });
  assert.equal(await body(client), "1");
  const again = await client.request({ method: "POST", path: "/", body: new Uint8Array(10) });
  assert.equal(await text(again), "2");
  assert.equal(server.count, 2);
});

Deno.test("a new connection that is closed without an answer is `unreachable`, tried once", async () => {
  await using server = rawServer(async (connection) => {
    await readRequest(connection);
    connection.close();
  });
  using client = openHttpClient({ server: server.url });
  await assert.rejects(body(client), unreachable(/closed before an answer/));
  assert.equal(server.count, 1);
});

Deno.test("an answer that comes before the upload is through is the answer", async () => {
  await using server = await serveHttp({
    listen: LOOPBACK,
    fetch: () => new Response("too much", { status: 413 }),
  });
  using client = openHttpClient({ server: server.url });
  let cancelled = false;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      controller.enqueue(new Uint8Array(65_536));
    },
    cancel() {
      cancelled = true;
    },
  });
  const response = await client.request({
    method: "PUT",
    path: "/",
    body: { stream, length: 1e12 },
  });
  assert.equal(response.status, 413);
  assert.equal(await text(response), "too much");
  await until("the upload to be given up", () => cancelled);
  assert.equal((await client.request({ method: "GET", path: "/" })).status, 413);
});

Deno.test("an answer that breaks off is `unreachable`, never a shorter body", async () => {
  await using server = rawServer(async (connection) => {
    await readRequest(connection);
    await write(connection, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this");
    connection.close();
  });
  using client = openHttpClient({ server: server.url });
  for (const take of ["bytes", "stream"] as const) {
    const response = await client.request({ method: "GET", path: "/" });
    const taken = response[take]();
    await assert.rejects(
      taken instanceof Promise ? taken : new Response(taken as BodyInit).bytes(),
      (error) => {
        const own = error instanceof TypeError && isError(error.cause) ? error.cause : error;
        return unreachable(/broke off/)(own);
      },
    );
  }
});

Deno.test("a server that says nothing is `unreachable` at the deadline", async () => {
  await using server = rawServer(async (connection) => void await readRequest(connection));
  using client = openHttpClient({ server: server.url });
  await assert.rejects(
    client.request({ method: "GET", path: "/quiet", timeoutMs: 20 }),
    unreachable(/no answer to GET \/quiet within 0\.02 s/),
  );
});

Deno.test("a body that stops coming is `unreachable` after the same time", async () => {
  await using server = rawServer(async (connection) => {
    await readRequest(connection);
    await write(connection, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this");
  });
  using client = openHttpClient({ server: server.url });
  const response = await client.request({ method: "GET", path: "/", timeoutMs: 200 });
  await assert.rejects(response.bytes(), unreachable(/no byte came for 0\.2 s/));
});

Deno.test("an upload that takes longer than the deadline goes on as long as it moves", async () => {
  await using server = await serveHttp({ fetch: echo, listen: LOOPBACK });
  using client = openHttpClient({ server: server.url });
  const start = performance.now();
  let left = 12;
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      controller.enqueue(new Uint8Array(10));
      if (--left === 0) controller.close();
    },
  });
  const response = await client.request({
    method: "PUT",
    path: "/",
    body: { stream, length: 120 },
    timeoutMs: 1_000,
  });
  assert.equal(JSON.parse(await text(response)).body, 120);
  assert.ok(performance.now() - start > 1_000);
});

Deno.test("an abort rejects with its reason: before, while waiting, and while the body comes", async () => {
  await using server = rawServer(async (connection) => {
    const request = await readRequest(connection);
    if (!request?.startsWith("GET /body")) return;
    await write(connection, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this");
  });
  using client = openHttpClient({ server: server.url });
  const reason = new Error("no longer wanted");
  await assert.rejects(
    client.request({ method: "GET", path: "/", signal: AbortSignal.abort(reason) }),
    reason,
  );
  const waiting = new AbortController();
  const answer = client.request({ method: "GET", path: "/", signal: waiting.signal });
  await until("the connection", () => server.count === 1);
  waiting.abort(reason);
  await assert.rejects(answer, reason);
  const coming = new AbortController();
  const response = await client.request({ method: "GET", path: "/body", signal: coming.signal });
  const bytes = response.bytes();
  coming.abort(reason);
  await assert.rejects(bytes, reason);
});

Deno.test("an abort after the answer was read does nothing", async () => {
  await using server = await serveHttp({ fetch: echo, listen: LOOPBACK });
  using client = openHttpClient({ server: server.url });
  const abort = new AbortController();
  await (await client.request({ method: "GET", path: "/", signal: abort.signal })).bytes();
  abort.abort();
  assert.equal(JSON.parse(await body(client)).method, "GET");
});

Deno.test("a big answer comes no faster than it is taken", async () => {
  const PIECE = 256 * 1024;
  let made = 0;
  await using server = await serveHttp({
    listen: LOOPBACK,
    fetch: () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            made += PIECE;
            controller.enqueue(new Uint8Array(PIECE));
            if (made >= 128 * 1024 * 1024) controller.close();
          },
        }),
      ),
  });
  using client = openHttpClient({ server: server.url });
  const response = await client.request({ method: "GET", path: "/" });
  let taken = 0;
  let lead = 0;
  for await (const chunk of response.stream()) {
    taken += chunk.length;
    // A slow sink: the server runs as far ahead as it is allowed to.
    if (taken < 8_000_000) await new Promise((resolve) => setTimeout(resolve, 2));
    lead = Math.max(lead, made - taken);
  }
  assert.equal(taken, 128 * 1024 * 1024);
  assert.ok(lead < 24 * 1024 * 1024, `${lead} bytes were under way`);
});

Deno.test("a stream that is cancelled ends the answer, and the client goes on", async () => {
  let cancelled = false;
  await using server = await serveHttp({
    listen: LOOPBACK,
    fetch: ({ url }) =>
      url.endsWith("/endless")
        ? new Response(
          new ReadableStream({
            pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
            cancel: () => void (cancelled = true),
          }),
        )
        : new Response("next"),
  });
  using client = openHttpClient({ server: server.url });
  const reader = (await client.request({ method: "GET", path: "/endless" })).stream().getReader();
  await reader.read();
  await reader.cancel();
  await until("the server to notice", () => cancelled);
  assert.equal(await body(client), "next");
  cancelled = false;
  await (await client.request({ method: "GET", path: "/endless" })).discard();
  await until("the server to notice that", () => cancelled);
});

Deno.test("nothing there, an unknown name and another protocol are `unreachable`, and told apart", async () => {
  await using dir = await TempDir.make();
  const closed = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${closed.addr.port}`;
  closed.close();
  await using raw = rawServer(async (connection) => {
    await readRequest(connection);
    await write(connection, "220 mail.example ESMTP\r\n");
  });
  const cases = [
    [url, /connection refused/],
    ["http://no-such-host.invalid:80", /name is not known|looked up/],
    [raw.url, /no HTTP server/],
    [raw.url.replace("http", "https"), /TLS|closed/],
    [`unix:${dir.join("none.sock")}`, /no such socket.*sublet serve/],
  ] as const;
  for (const [server, text] of cases) {
    using client = openHttpClient({ server });
    await assert.rejects(body(client), (error) => {
      assert.ok(isError(error) && error.message.startsWith(client.url), String(error));
      assert.notEqual(error.cause, undefined);
      return unreachable(text)(error);
    });
  }
});

Deno.test("what is no server is `usage`", () => {
  for (const server of ["", "host:80", "ftp://x", "https://", "http://u:p@x", "http://x/?a", "x"]) {
    assert.throws(() => openHttpClient({ server }), (error) => isError(error, "usage"), server);
  }
});

Deno.test("SSL_CERT_FILE that cannot be used is `config`, and is named", async () => {
  await using dir = await TempDir.make();
  await Deno.writeTextFile(dir.join("empty.pem"), "");
  for (const path of [dir.join("none.pem"), dir.join("empty.pem")]) {
    assert.throws(
      () => openHttpClient({ server: "https://x", env: { SSL_CERT_FILE: path } }),
      (error) => isError(error, "config") && error.message.includes(`SSL_CERT_FILE = ${path}`),
    );
  }
});

Deno.test("a closed client refuses", async () => {
  await using server = await serveHttp({ fetch: echo, listen: LOOPBACK });
  const client = openHttpClient({ server: server.url });
  await body(client);
  client[Symbol.dispose]();
  await assert.rejects(body(client), (error) => isError(error, "unavailable"));
  openHttpClient({ server: server.url })[Symbol.dispose]();
});

Deno.test("a worker whose only permission is the server's address can use it", async () => {
  await using server = await serveHttp({ fetch: echo, listen: LOOPBACK });
  const module = new URL("./client_worker.ts", import.meta.url);
  const worker = new Worker(module, {
    type: "module",
    deno: {
      permissions: {
        net: [`127.0.0.1:${server.addr!.port}`],
        read: false,
        write: false,
        env: false,
        run: false,
        ffi: false,
        sys: false,
        import: false,
      },
    },
  });
  const answered = Promise.withResolvers<string>();
  worker.onmessage = (event) => answered.resolve(event.data);
  worker.onerror = (event) => {
    event.preventDefault();
    answered.reject(new Error(event.message));
  };
  worker.postMessage(server.url);
  try {
    assert.equal(await answered.promise, "PUT from a worker");
  } finally {
    worker.terminate();
  }
});

Deno.test("answers whose server has closed long before they are read come whole, and those that were cut are told", async () => {
  // A reader that stands still pauses the client where a piece ends: each size ends elsewhere.
  const sizes = Array.from({ length: 24 }, (_, i) => (i + 1) * 16_384);
  const bytes = (size: number) => new Uint8Array(size).map((_, at) => at % 251);
  await using raw = rawServer(async (connection) => {
    const [, path = ""] = (await readRequest(connection))?.split(" ") ?? [];
    const [size = 0, missing = 0] = path.slice(1).split("/").map(Number);
    const head = `HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\nConnection: close\r\n\r\n`;
    await write(connection, head);
    const sent = bytes(size - missing);
    for (let at = 0; at < sent.length;) at += await connection.write(sent.subarray(at));
    connection.close();
  });
  using client = openHttpClient({ server: raw.url });
  const get = (size: number, missing: number) =>
    client.request({ method: "GET", path: `/${size}/${missing}` });
  for (const size of sizes) {
    const [whole, cut] = await Promise.all([get(size, 0), get(size, 100)]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(await whole.bytes(), bytes(size), String(size));
    await assert.rejects(cut.bytes(), String(size));
  }
});
