/** @module A thread that may do little, and uses a bucket. */

import { openCas } from "../../lib/cas/mod.ts";

const scope = globalThis as unknown as {
  onmessage: (
    event: MessageEvent<
      { table: Record<string, unknown>; home: string; env: Record<string, string> }
    >,
  ) => void;
  postMessage(message: string): void;
};

scope.onmessage = async ({ data: { table, home, env } }) => {
  try {
    const client = () => Promise.reject(new Error("no client of ours is needed"));
    const cas = await openCas(table, { home, tmp: home, env, client });
    const blob = new Uint8Array(2_000_000).map((_, i) => (i * i) >> 7);
    const got = await cas.get(await cas.put(blob));
    const elsewhere = await Deno.connect({ hostname: "127.0.0.1", port: 1 })
      .then(() => "", (error) => error.name);
    const outside = await Deno.readTextFile("/etc/hostname").then(() => "", (error) => error.name);
    scope.postMessage(`${got?.length} ${elsewhere} ${outside}`);
  } catch (error) {
    scope.postMessage(String(error));
  }
};
