/** @module A server that is restarted listens where it did. */

import assert from "node:assert/strict";
import { homePaths } from "../../lib/home/mod.ts";
import { listenAgain, readStart, rememberStart } from "../../lib/cli/serve/started.ts";
import { TempDir } from "../kit/mod.ts";

Deno.test("how a server was started is kept in its home", async () => {
  await using dir = await TempDir.make("sublet-started-");
  const paths = homePaths(dir.path);
  assert.deepEqual(await readStart(paths), { listen: null, address: null });
  const how = { listen: "127.0.0.1:0", address: "127.0.0.1:4321" };
  await rememberStart(paths, how);
  assert.deepEqual(await readStart(paths), how);
  await Deno.writeTextFile(`${paths.pidFile}.started`, "{");
  assert.deepEqual(await readStart(paths), { listen: null, address: null });
});

const CASES: [string, string | null, string | null, string | null, string | undefined][] = [
  ["only the socket", null, null, null, undefined],
  ["an address of the config: it is read again", null, "127.0.0.1:1", "127.0.0.1:1", undefined],
  [
    "any port of the config: the one that was taken",
    null,
    "127.0.0.1:7",
    "127.0.0.1:0",
    "127.0.0.1:7",
  ],
  ["--listen", "127.0.0.1:1", "127.0.0.1:1", null, "127.0.0.1:1"],
  ["--listen with any port", "127.0.0.1:0", "127.0.0.1:7", "127.0.0.1:9", "127.0.0.1:7"],
  ["--listen with any port by name", "localhost:0", "127.0.0.1:7", null, "127.0.0.1:7"],
  ["any port of everywhere", "0.0.0.0:0", "0.0.0.0:7", null, "0.0.0.0:7"],
  ["an address that nobody took", "127.0.0.1:0", null, null, "127.0.0.1:0"],
];

for (const [what, listen, address, configured, again] of CASES) {
  Deno.test(`a restarted server listens where it did: ${what}`, () => {
    assert.equal(listenAgain({ listen, address }, configured), again);
  });
}
