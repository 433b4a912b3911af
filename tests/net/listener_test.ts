/** @module A server whose process may open no more files: it comes back once it may. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { openHttpClient } from "../../lib/net/mod.ts";
import { until } from "../kit/mod.ts";

Deno.test("a server that could not accept a connection listens again where it did", async () => {
  const program = fileURLToPath(new URL("listener_server.ts", import.meta.url));
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", 'ulimit -n 64 && exec "$0" run -A --no-prompt "$1"', Deno.execPath(), program],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const said: string[] = [];
  const read = child.stdout.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({ write: (text) => void said.push(...text.trim().split("\n")) }),
  );
  const held: Deno.Conn[] = [];
  try {
    const url = new URL(await until("it listens", () => said[0] ?? null));
    for (let more = true; more && held.length < 200;) {
      const dialed = Deno.connect({ hostname: url.hostname, port: Number(url.port) });
      more = await dialed.then((each) => held.push(each) > 0, () => false);
    }
    for (const each of held.splice(0)) each.close();
    using client = openHttpClient({ server: url.origin });
    const answer = await until(
      "it answers",
      () =>
        client.request({ method: "GET", path: "/" }).then(
          async (response) => new TextDecoder().decode(await response.bytes()),
          () => null,
        ),
    );
    assert.equal(answer, "hello");
  } finally {
    for (const each of held) each.close();
    child.kill("SIGKILL");
    await child.status;
    await read;
  }
});
