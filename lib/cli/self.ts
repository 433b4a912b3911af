/** @module How to start this very program again. */

/** The argv that runs this program with `args`: the compiled file itself, or deno with its main module. */
export function selfCommand(args: readonly string[]): string[] {
  if (Deno.build.standalone) return [Deno.execPath(), ...args];
  const main = new URL("../../main.ts", import.meta.url).pathname;
  const config = new URL("../../deno.json", import.meta.url).pathname;
  return [Deno.execPath(), "run", "-A", "--no-check", "--config", config, main, ...args];
}
