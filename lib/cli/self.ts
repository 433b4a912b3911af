/** @module How to start this very program again. */

import { fileURLToPath } from "node:url";

/** The argv that runs this program with `args`: the compiled file itself, or deno with its main module. */
export function selfCommand(args: readonly string[]): string[] {
  if (Deno.build.standalone) return [Deno.execPath(), ...args];
  const main = fileURLToPath(new URL("../../main.ts", import.meta.url));
  const config = fileURLToPath(new URL("../../deno.json", import.meta.url));
  return [Deno.execPath(), "run", "-A", "--no-check", "--config", config, main, ...args];
}
