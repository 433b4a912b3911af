/** @module Tests of how `[plugins.cas]` names a store. */

import assert from "node:assert/strict";
import { openCas, whereIs } from "../../lib/cas/mod.ts";
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

Deno.test("what a crash left of a stream in the home's temporary directory goes when a store opens", async () => {
  await using home = await TempDir.make();
  const old = (Date.now() - 3 * 86_400_000) / 1000;
  for (const name of ["crash.spool", "crash.frame", "somebody's"]) {
    await Deno.writeTextFile(home.join(name), "left");
    await Deno.utime(home.join(name), old, old);
  }
  await Deno.writeTextFile(home.join("young.spool"), "in use");
  await openCas({ path: "store" }, { home: home.path, tmp: home.path, client: noClient });
  const left = (await Array.fromAsync(Deno.readDir(home.path))).map(({ name }) => name).sort();
  assert.deepEqual(left, ["somebody's", "store", "young.spool"]);
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

Deno.test("the sqlite store is a file in the home, or where its path says", async () => {
  await using home = await TempDir.make();
  for (const table of [{ provider: "sqlite" }, { provider: "sqlite", path: "made/blobs.db" }]) {
    const cas = await openCas(table, { home: home.path, client: noClient });
    await cas.put(new Uint8Array(3));
    await (cas as unknown as AsyncDisposable)[Symbol.asyncDispose]();
    const path = home.join(table.path ?? "store.sqlite");
    assert.ok((await Deno.stat(path)).isFile);
    assert.equal(whereIs(table, home.path), `sqlite://${path}`);
  }
});

Deno.test("an unknown provider is refused with those that are known", async () => {
  await assert.rejects(
    openCas({ provider: "dsik" }, { home: "/home/me", client: noClient }),
    (error) =>
      isError(error, "config") &&
      ["dsik", "disk, sqlite", "Did you mean disk?", "/home/me/config.toml"]
        .every((
          part,
        ) => error.message.includes(part)),
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

Deno.test("a cache is opened over the store that its remote names, and told where that is", async () => {
  await using home = await TempDir.make();
  const context = { home: home.path, client: noClient };
  const table = {
    provider: "cached",
    remote: { path: "there" },
    local: "here",
    evict_after_days: 30,
    local_max_gb: 0.5,
  };
  assert.equal(whereIs(table, home.path), `file://${home.join("there")}`);
  const cas = await openCas(table, context);
  const cid = await cas.put(new Uint8Array(3));
  await (cas as unknown as AsyncDisposable)[Symbol.asyncDispose]();
  assert.equal(await Deno.readTextFile(home.join("here/remote.url")), whereIs(table, home.path));
  const there = await openCas({ path: "there" }, context);
  assert.equal(await there.has(cid), true);
});

Deno.test("the table of a cache takes the local tier's table, too", async () => {
  await using home = await TempDir.make();
  const table = { provider: "cached", remote: { provider: "memory" }, local: { provider: "disk" } };
  const cas = await openCas(table, { home: home.path, client: noClient });
  await cas.put(new Uint8Array(3));
  await (cas as unknown as AsyncDisposable)[Symbol.asyncDispose]();
  assert.equal(await Deno.readTextFile(home.join("store/remote.url")), "memory:");
});

Deno.test("mistakes in the table of a cache name the key, in its remote as well", async () => {
  const refused = async (table: Record<string, unknown>, ...parts: string[]) => {
    const open = openCas({ provider: "cached", ...table }, { home: "/home/me", client: noClient });
    await assert.rejects(open, (error) => {
      assert.ok(isError(error, "config"), String(error));
      for (const part of parts) assert.ok(error.message.includes(part), error.message);
      return true;
    });
  };
  await refused({}, "plugins.cas.remote", "table of another provider");
  await refused({ remote: "s3" }, "plugins.cas.remote", "table of another provider");
  await refused({ remote: { provider: "http" } }, "plugins.cas.remote.url");
  await refused({ remote: { provider: "dsik" } }, "plugins.cas.remote.provider", "disk?");
  await refused({ remote: {}, local: 3 }, "plugins.cas.local");
  await refused({ remote: {}, local_max_gb: -1 }, "plugins.cas.local_max_gb", "GiB");
  await refused({ remote: {}, evict_after_days: "soon" }, "plugins.cas.evict_after_days", "days");
  await refused({ remote: {} }, "plugins.cas.local", "/home/me/store", "the remote itself");
  await refused({ remote: {}, evict_days: 3 }, "plugins.cas.evict_days");
});
