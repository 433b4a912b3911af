/** @module Stores in a thread that may use the home and what `grantsOf` adds, as a worker's is. */

import assert from "node:assert/strict";
import { grantsOf } from "../../lib/lease/machine/grants.ts";
import { TempDir } from "../kit/mod.ts";

Deno.test("stores work where only their own places may be used", async () => {
  await using root = await TempDir.make();
  const home = root.join("home");
  await Deno.mkdir(home);
  for (
    const table of [
      { provider: "disk", path: root.join("disk") },
      { provider: "sqlite" },
      { provider: "sqlite", path: root.join("sqlite/blobs.sqlite") },
      {
        provider: "cached",
        local: root.join("cache"),
        remote: { provider: "disk", path: root.join("remote") },
        evict_after_days: 1,
        local_max_gb: 0.001,
      },
      { provider: "cached", remote: { provider: "sqlite", path: "remote.sqlite" } },
    ]
  ) {
    const { net, read, write } = grantsOf("http://127.0.0.1:1", home, table);
    const worker = new Worker(new URL("./granted_worker.ts", import.meta.url), {
      type: "module",
      deno: {
        permissions: {
          net,
          read,
          write,
          env: false,
          run: false,
          ffi: false,
          sys: false,
          import: false,
        },
      },
    });
    const answer = await new Promise<string>((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message));
      worker.postMessage({ home, table });
    });
    worker.terminate();
    assert.equal(answer, "fine", JSON.stringify(table));
  }
});
