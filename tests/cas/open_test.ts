/** @module Tests of how `[plugins.cas]` names a store. */

import assert from "node:assert/strict";
import { openCas } from "../../lib/cas/mod.ts";
import { isError } from "../../lib/home/mod.ts";
import type { HttpClient } from "../../lib/net/mod.ts";
import { TempDir } from "../kit/mod.ts";

const noClient = () => {
  throw new Error("no client is needed");
};

Deno.test("the disk store is in the home, or where its path says", async () => {
  await using home = await TempDir.make();
  const exists = (path: string) => Deno.stat(path).then((info) => info.isDirectory, () => false);
  const context = { home: home.path, client: noClient };
  await openCas({}, context);
  assert.ok(await exists(home.join("store/blake3")));
  await openCas({ provider: "disk", path: "elsewhere" }, context);
  assert.ok(await exists(home.join("elsewhere/blake3")));
  await openCas({ provider: "disk", path: home.join("absolute") }, context);
  assert.ok(await exists(home.join("absolute/blake3")));
});

Deno.test("the http store dials its URL, and closes its client", async () => {
  const dialed: string[] = [];
  let closed = false;
  const client = (url: string): HttpClient => {
    dialed.push(url);
    return {
      url,
      request: () => Promise.reject(new Error("not now")),
      [Symbol.dispose]: () => void (closed = true),
    };
  };
  const cas = await openCas({ provider: "http", url: "https://store:8123" }, { home: "/", client });
  assert.deepEqual(dialed, ["https://store:8123"]);
  await (cas as unknown as AsyncDisposable)[Symbol.asyncDispose]();
  assert.ok(closed);
});

Deno.test("the memory store needs nothing", async () => {
  const cas = await openCas({ provider: "memory" }, { home: "/", client: noClient });
  assert.equal(await cas.has(await cas.put(new Uint8Array(3))), true);
});

Deno.test("an unknown provider is refused with those that are known", async () => {
  await assert.rejects(
    openCas({ provider: "dsik" }, { home: "/home/me", client: noClient }),
    (error) =>
      isError(error, "config") &&
      ["dsik", "disk, http, memory", "Did you mean disk?", "/home/me/config.toml"].every((part) =>
        error.message.includes(part)
      ),
  );
});

Deno.test("every mistake in the table is a line that names the key", async () => {
  const refusedLines = async (table: Record<string, unknown>) => {
    const error = await openCas(table, { home: "/", client: noClient }).then(
      () => null,
      (error) => error,
    );
    assert.ok(isError(error, "config"), String(error));
    return error.message.split("\n");
  };
  assert.match((await refusedLines({ provider: "http" }))[0] ?? "", /^plugins\.cas\.url/);
  assert.match(
    (await refusedLines({ provider: "http", url: "ftp://x" }))[0] ?? "",
    /http or https URL/,
  );
  const two = await refusedLines({ provider: "disk", path: 3, pth: "x" });
  assert.equal(two.length, 2);
  assert.match(two.join("\n"), /plugins\.cas\.path = 3/);
  assert.match(two.join("\n"), /plugins\.cas\.pth = "x".*did you mean path\?/);
});
