import assert from "node:assert/strict";
import { openDisk } from "../../lib/cas/mod.ts";
import { GuardedProcesses } from "../../lib/lease/machine/guarded_processes.ts";
import { systemProcesses } from "../../lib/lease/machine/processes.ts";
import type { Transfer } from "../../lib/vcs/mod.ts";
import { Bench } from "./kit.ts";

Deno.test("a replica needs no permission but for its own home, and runs nothing itself, also to capture work", async () => {
  await using bench = await Bench.make();
  const { record } = await bench.record();
  const { revision } = await record.head();
  const home = bench.dir.join("home");
  const store = `${home}/store`;
  const sent = await record.send(await openDisk({ path: store }), [revision], []);
  const worker = new Worker(new URL("./confined_worker.ts", import.meta.url), {
    type: "module",
    deno: {
      permissions: {
        read: [home],
        write: [home],
        net: false,
        run: false,
        env: false,
        ffi: false,
        sys: false,
        import: false,
      },
    },
  });
  // What may be run is the supervisor's to judge, as in a worker.
  const processes = new GuardedProcesses(systemProcesses(), await Deno.realPath(home));
  let chain = Promise.resolve();
  const outcome = await new Promise<{ work?: Transfer }>((resolve, reject) => {
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(event.message));
    };
    worker.onmessage = ({ data }) => {
      if ("done" in data) return resolve(data.done);
      chain = chain.then(async () =>
        worker.postMessage({ result: await processes.exec(data.exec) })
      );
    };
    worker.postMessage({ home, store, revision, blob: sent?.blob });
  });
  worker.terminate();
  const { work, ...rest } = outcome;
  assert.deepEqual(rest, {
    text: "one\n",
    mayRun: false,
    changed: true,
    leftOut: [],
    notes: ['"inner" is a repository of its own: its files are saved, its history is not'],
  });
  assert.ok(work);
  const saved = await record.receive(await openDisk({ path: store }), work, revision);
  assert.equal(saved.length, 1);
  const held = await record.untracked(work.head, ["a.txt", "new.txt", "inner/x"]);
  assert.deepEqual(held, []);
});
