/** @module Run by a test in a Web Worker that may use its directories and nothing else: puts and gets in a store. */

import { openCas } from "../../lib/cas/mod.ts";

const scope = self as unknown as {
  onmessage: (event: MessageEvent<{ home: string; table: Record<string, unknown> }>) => void;
  postMessage(message: string): void;
};

scope.onmessage = async ({ data: { home, table } }) => {
  try {
    const client = () => {
      throw new Error("no client is needed");
    };
    const cas = await openCas(table, { home, client });
    for (const length of [100, 3_000_000]) {
      const cid = await cas.put(new Uint8Array(length).fill(7));
      if ((await cas.get(cid))?.length !== length) throw new Error("other bytes");
      await cas.getFile(cid, `${home}/file`);
      await cas.putFile(`${home}/file`);
    }
    await (cas as Partial<AsyncDisposable>)[Symbol.asyncDispose]?.();
    scope.postMessage("fine");
  } catch (error) {
    scope.postMessage(error instanceof Error ? error.stack ?? error.message : String(error));
  }
};
