import assert from "node:assert/strict";
import { openDisk } from "../../lib/cas/mod.ts";
import { exec } from "../kit/exec.ts";
import { Bench } from "./kit.ts";

Deno.test("a replica needs no permission but for its own home, and runs nothing itself", async () => {
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
  let chain = Promise.resolve();
  const outcome = await new Promise<unknown>((resolve, reject) => {
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(event.message));
    };
    worker.onmessage = ({ data }) => {
      if ("done" in data) return resolve(data.done);
      chain = chain.then(async () => worker.postMessage({ result: await exec(data.exec) }));
    };
    worker.postMessage({ home, store, revision, blob: sent?.blob });
  });
  worker.terminate();
  assert.deepEqual(outcome, { text: "one\n", mayRun: false });
});
