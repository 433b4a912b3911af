/** @module An empty environment for a library that reads variables where it may not. */

import process from "node:process";

/** Variables that the HTTP client's library asks for without needing them. */
const ASKED_FOR = ["JEST_WORKER_ID", "UNDICI_NO_WASM_SIMD"];

/**
 * Where this thread may not read `ASKED_FOR`, make node's view of its environment an empty one: otherwise the library
 * fails with a question for a permission that it has no use for.
 */
export function hideEnvironment(): void {
  const denied = ASKED_FOR.some((variable) =>
    Deno.permissions.querySync({ name: "env", variable }).state !== "granted"
  );
  if (denied) Object.defineProperty(process, "env", { value: {}, writable: true });
}
