/** @module Run by tests in a Web Worker with few permissions: stores the file `file` of the directory that it is told. */

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
    scope.postMessage({ cid, threads: hashPool() !== null });
  } catch (error) {
    scope.postMessage(String(error));
  }
};
