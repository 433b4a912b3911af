/** @module What a worker's Web Worker is granted for each server and store. */

import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { grantsOf } from "../../lib/lease/machine/grants.ts";
import { hostSampler } from "../../lib/lease/machine/host_sample.ts";
import { TempDir } from "../kit/mod.ts";

Deno.test("a worker dials its server and its store, at their ports, and nothing else", () => {
  const http = { provider: "http", url: "http://store.example" };
  assert.deepEqual(grantsOf("https://server.example/prefix", "/home", http), {
    net: ["server.example:443", "store.example:80"],
    sockets: [],
    read: ["/home"],
    write: ["/home"],
  });
  assert.deepEqual(grantsOf("http://[::1]:8443", "/home", {}).net, ["[::1]:8443"]);
});

Deno.test("a store on disk is granted where it is, and a socket as a file", () => {
  assert.deepEqual(grantsOf("http://a:1", "/home", { provider: "disk", path: "/data/cas" }).write, [
    "/home",
    "/data/cas",
  ]);
  assert.deepEqual(grantsOf("http://a:1", "/home", { path: "cas" }).read, ["/home", "/home/cas"]);
  assert.deepEqual(grantsOf("unix:/run/s.sock", "/home", {}), {
    net: [],
    sockets: ["/run/s.sock"],
    read: ["/home", "/run/s.sock"],
    write: ["/home", "/run/s.sock"],
  });
});

Deno.test("a cache is granted its directory and what its remote needs, a file of SQLite those beside it", () => {
  const remote = { provider: "http", url: "https://store.example" };
  for (const local of ["/data/cache", { path: "/data/cache" }]) {
    assert.deepEqual(grantsOf("http://a:1", "/home", { provider: "cached", remote, local }), {
      net: ["a:1", "store.example:443"],
      sockets: [],
      read: ["/home", "/data/cache"],
      write: ["/home", "/data/cache"],
    });
  }
  const { write } = grantsOf("http://a:1", "/home", {
    provider: "cached",
    remote: { provider: "sqlite", path: "/data/blobs.sqlite" },
  });
  assert.deepEqual(write, ["/home", "/data"]);
  assert.throws(
    () => grantsOf("http://a:1", "/home", { provider: "cached", remote: { provider: "odd" } }),
    (error) => isError(error, "config") && /"odd"/.test(error.message),
  );
});

Deno.test("a store whose needs nobody knows is refused with the key to mend", () => {
  assert.throws(
    () => grantsOf("http://a:1", "/home", { provider: "elsewhere" }),
    (error) =>
      isError(error, "config") && /plugins\.cas\.provider = "elsewhere"/.test(error.message),
  );
});

Deno.test("the host's sample is what the machine has now", async () => {
  await using dir = await TempDir.make();
  const sample = await (await hostSampler(dir.path))();
  assert.ok(Math.abs(Date.parse(sample.at) - Date.now()) < 60_000);
  assert.ok(Number.isInteger(sample.cpus) && sample.cpus > 0);
  assert.ok(sample.load1 >= 0);
  const { total } = Deno.systemMemoryInfo();
  assert.ok(sample.memory_available > 0 && sample.memory_available <= total);
  assert.ok(Number.isSafeInteger(sample.memory_available));
  assert.ok(Number.isSafeInteger(sample.disk_free) && sample.disk_free > 0);
});
