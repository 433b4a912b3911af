/** @module Reading JSON bodies: their bounds in size and time. */

import assert from "node:assert/strict";
import * as z from "zod";
import { isError } from "../../lib/home/mod.ts";
import { readJson, serveHttp, toResponse } from "../../lib/net/mod.ts";

const SHAPE = z.object({ a: z.string() });

function ask(body: BodyInit | null, maxBytes = 100, seconds?: number) {
  const raw = new Request("http://x/", { method: "POST", body });
  return readJson(raw, SHAPE, maxBytes, seconds);
}

/** A body of these texts, which then never ends. */
function endless(
  ...texts: string[]
): { body: ReadableStream<Uint8Array>; cancelled: () => boolean } {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const text of texts) controller.enqueue(new TextEncoder().encode(text));
    },
    cancel() {
      cancelled = true;
    },
  });
  return { body, cancelled: () => cancelled };
}

Deno.test("a body is read whole, also when its characters come in halves", async () => {
  const bytes = new TextEncoder().encode('{"a":"é"}');
  const body = ReadableStream.from([bytes.slice(0, 7), bytes.slice(7)]);
  assert.deepEqual(await ask(body), { a: "é" });
  assert.deepEqual(await ask('{"a":"x"}'), { a: "x" });
});

Deno.test("half a body is given up after its time, and let go", async () => {
  const { body, cancelled } = endless('{"a":');
  await assert.rejects(ask(body, 100, 0.05), (error) => isError(error, "slow_request"));
  assert.equal(cancelled(), true);
});

Deno.test("whoever sent half a body is told that the connection ends", async () => {
  for (const style of ["api", "executor"] as const) {
    await using server = await serveHttp({
      listen: { host: "127.0.0.1", port: 0 },
      fetch: async (request) =>
        await readJson(request, SHAPE, 100, 0.05).then(
          () => new Response(),
          (error) => toResponse(error, style),
        ),
    });
    using connection = await Deno.connect({
      hostname: "127.0.0.1",
      port: server.addr?.port ?? 0,
    });
    const half = 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{"a":';
    await connection.write(new TextEncoder().encode(half));
    const buffer = new Uint8Array(4096);
    const count = await connection.read(buffer) ?? 0;
    const head = new TextDecoder().decode(buffer.subarray(0, count));
    assert.match(head, /^HTTP\/1\.1 408 [\s\S]*\r\nconnection: close\r\n/);
  }
});

Deno.test("a body that is too long, empty, or of another shape is refused for that", async () => {
  await assert.rejects(ask(endless("x".repeat(101)).body), (error) => isError(error, "too_large"));
  await assert.rejects(ask("x".repeat(101)), (error) => isError(error, "too_large"));
  await assert.rejects(ask(null), (error) => isError(error, "invalid_request"));
  await assert.rejects(ask('{"a":1}'), (error) => isError(error, "invalid_body"));
});
