/** @module Tests of tunnels through proxies that answer badly, late or never. */

import assert from "node:assert/strict";
import { openTunnel } from "../../lib/net/tunnel.ts";
import { isError, messageOf } from "../../lib/home/mod.ts";

/** What comes of a tunnel through a proxy that does `serve` with a connection. */
async function through(serve: (connection: Deno.Conn) => Promise<void>, timeoutMs = 5_000) {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const connections: Deno.Conn[] = [];
  const run = async () => {
    for await (const connection of listener) {
      connections.push(connection);
      serve(connection).catch(() => {});
    }
  };
  run().catch(() => {});
  try {
    const proxy = new URL(`http://me:hidden@127.0.0.1:${(listener.addr as Deno.NetAddr).port}`);
    const target = new URL("https://bucket.example");
    const socket = await openTunnel({ proxy, target, ca: undefined, timeoutMs });
    socket.destroy();
    return null;
  } catch (error) {
    assert.ok(!messageOf(error).includes("hidden"));
    return error;
  } finally {
    for (const connection of connections) {
      try {
        connection.close();
      } catch {
        // The test closed it.
      }
    }
  }
}

const say = (text: string) => async (connection: Deno.Conn) => {
  await connection.read(new Uint8Array(4096));
  await connection.write(new TextEncoder().encode(text));
};

Deno.test("what a proxy answers instead of a tunnel is told", async () => {
  const error = await through(say("HTTP/1.1 407 Proxy Authentication Required\r\nx: y\r\n\r\n"));
  assert.ok(isError(error, "unreachable"), String(error));
  assert.match(error.message, /bucket\.example:443: it answered HTTP\/1\.1 407 .*HTTPS_PROXY/);
  assert.match(messageOf(await through(say("SSH-2.0-OpenSSH\r\n\r\n"))), /SSH-2\.0/);
});

Deno.test("a proxy that closes, goes on for ever, or is silent is given up", async () => {
  assert.match(
    messageOf(await through((connection) => Promise.resolve(connection.close()))),
    /closed|reset/i,
  );
  assert.match(messageOf(await through(say(`HTTP/1.1 200 ${"x".repeat(20_000)}`))), /no end/);
  assert.match(messageOf(await through(() => Promise.resolve(), 200)), /within 0\.2 s/);
});

Deno.test("a tunnel in which nobody speaks TLS is given up", async () => {
  const silent = await through(say("HTTP/1.1 200 Connection established\r\n\r\n"), 300);
  assert.match(messageOf(silent), /within 0\.3 s/);
});

Deno.test("a proxy that nobody runs is told", async () => {
  const target = new URL("https://bucket.example");
  const proxy = new URL("http://127.0.0.1:1");
  await assert.rejects(
    openTunnel({ proxy, target, ca: undefined, timeoutMs: 5_000 }),
    /ECONNREFUSED|refused/,
  );
});
