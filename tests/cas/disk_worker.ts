/** @module Run by tests in a Web Worker with few permissions: stores the file `file` of the
 * directory that it is told, and some small blobs at once. */

import { openDisk } from "../../lib/cas/mod.ts";
import { hashPool } from "../../lib/cas/hash_pool.ts";

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<string>) => void;
  postMessage(message: unknown): void;
};

scope.onmessage = async ({ data: root }) => {
  try {
    const cas = await openDisk({ path: `${root}/store` });
    const cid = await cas.putFile(`${root}/file`);
    const small = Array.from({ length: 50 }, (_, i) => new Uint8Array(900).fill(i));
    const cids = await Promise.all(small.map((data) => cas.put(data)));
    const missing = await cas.missing(cids);
    const logs = Array.from(Deno.readDirSync(`${root}/store/journal`)).length;
    await cas[Symbol.asyncDispose]();
    const left = Array.from(Deno.readDirSync(`${root}/store/journal`)).length;
    scope.postMessage({ cid, threads: hashPool() !== null, missing, journal: logs > 0, left });
  } catch (error) {
    scope.postMessage(String(error));
  }
};
