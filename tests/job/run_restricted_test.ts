/** @module A test that an evaluation needs no more of the machine than the worker's permissions give. */

import assert from "node:assert/strict";
import { storeTree } from "../../lib/cas/mod.ts";
import { GitVcs } from "../../lib/vcs/mod.ts";
import { Bench } from "./run_kit.ts";
import type { Order } from "./run_restricted_worker.ts";

Deno.test("an evaluation runs where only the home may be read and written, links in its inputs included", async () => {
  await using bench = await Bench.make();
  const blobs: Uint8Array[] = [];
  const { putStream } = bench.cas;
  bench.cas.putStream = async (...args) => {
    const cid = await putStream.apply(bench.cas, args);
    const blob = await bench.cas.get(cid);
    if (blob !== null) blobs.push(blob);
    return cid;
  };
  await Deno.mkdir(bench.dir.join("data"));
  await Deno.writeTextFile(bench.dir.join("data/train"), "41\n");
  await Deno.symlink("train", bench.dir.join("data/alias"));
  const { manifest } = await storeTree(bench.cas, bench.dir.join("data"));
  const record = await new GitVcs(bench.site).open(bench.dir.join("record"));
  const sent = await record.send(bench.cas, [bench.revision], []);
  assert.ok(sent !== null);
  const home = bench.site.home;
  const worker = new Worker(new URL("./run_restricted_worker.ts", import.meta.url), {
    type: "module",
    deno: {
      permissions: { read: [home], write: [home], env: false, net: false, run: false, ffi: false },
    },
  });
  try {
    const order: Order = {
      home,
      job: bench.job("echo METRIC score=$(($(cat data/alias) + $(cat value)))", {
        artifact: bench.source({ links: { data: manifest } }),
      }),
      blobs,
      bundle: sent.blob,
    };
    const outcome = await new Promise<Record<string, unknown>>((resolve, reject) => {
      worker.onerror = (event) => {
        event.preventDefault();
        reject(new Error(event.message));
      };
      worker.onmessage = async ({ data }) => {
        if ("outcome" in data) return resolve(data.outcome);
        const processes = bench.processes as unknown as Record<
          string,
          (...args: unknown[]) => Promise<unknown>
        >;
        const call = processes[data.method]?.bind(bench.processes);
        if (call === undefined) return reject(new Error(`no ${data.method}`));
        const answer = await call(...data.args).then(
          (value) => ({ value }),
          (error) => ({ error: String(error) }),
        );
        worker.postMessage({ id: data.id, ...answer });
      };
      worker.postMessage(order);
    });
    const report = outcome.report as { samples: { metrics: unknown; error: string | null }[] };
    assert.deepEqual(
      [report?.samples[0]?.error, report?.samples[0]?.metrics],
      [null, { score: 42 }],
      JSON.stringify(outcome),
    );
    assert.deepEqual([...Deno.readDirSync(`${home}/runs/12/eval-0`)], []);
  } finally {
    worker.terminate();
  }
});
