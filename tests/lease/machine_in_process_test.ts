/** @module The worker inside a server: over a Unix socket, without a supervisor. */

import assert from "node:assert/strict";
import { openMemory } from "../../lib/cas/mod.ts";
import type { Log } from "../../lib/home/mod.ts";
import { inProcessWorker } from "../../lib/lease/machine/in_process.ts";
import { TempDir, until } from "../kit/mod.ts";
import { FakeExecutor, framework } from "./worker_fake_server.ts";

/** A home, a server on its socket, and what a worker logs. */
async function house() {
  const dir = await TempDir.make();
  const socket = dir.join("sublet.sock");
  const server = new FakeExecutor({ path: socket });
  const events: string[] = [];
  const log: Log = { event: (event) => void events.push(event) };
  const cas = openMemory();
  const options = {
    socket,
    token: "slt_serve",
    pool: "serve",
    home: dir.path,
    cas,
    version: "0.1.0",
    self: [],
    log,
  };
  return { dir, server, events, cas, options };
}

Deno.test("a worker in the server's process works over its socket, and drains", async () => {
  const { dir, server, cas, options } = await house();
  await using _dir = dir;
  await using _server = server;
  await using worker = inProcessWorker(options);
  await until("it beats", () => server.of("heartbeat").length > 1);
  const [register] = server.of("register");
  assert.equal(register?.headers.get("authorization"), "Bearer slt_serve");
  assert.equal(await cas.has(register?.body["cas_probe"] as never), true);
  await worker.drain(5);
  assert.deepEqual(await worker.ended, { how: "drained" });
});

Deno.test("a drain before the worker is made counts, and disposing of it stops it", async () => {
  const { dir, server, options } = await house();
  await using _dir = dir;
  await using _server = server;
  {
    await using worker = inProcessWorker(options);
    await worker.drain(5);
  }
  const worker = inProcessWorker(options);
  await until("it beats", () => server.of("heartbeat").length > 1);
  await worker[Symbol.asyncDispose]();
  assert.deepEqual(await worker.ended, { how: "stopped" });
});

Deno.test("a second one in the home, or one that is refused, says so and ends", async () => {
  const { dir, server, events, options } = await house();
  await using _dir = dir;
  await using _server = server;
  await using _first = inProcessWorker(options);
  await until("it beats", () => server.of("heartbeat").length > 1);
  const second = await inProcessWorker(options).ended;
  assert.equal(second.how === "refused" && second.error.code, "conflict");
  assert.ok(events.includes("worker.not_started"));
  server.replies["heartbeat"] = () => framework(401, "gone", { "www-authenticate": "Bearer" });
  const first = await _first.ended;
  assert.equal(first.how === "refused" && first.error.code, "unauthenticated");
});
