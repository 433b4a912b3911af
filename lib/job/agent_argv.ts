/** @module The command line of an agent's turn: placeholders of its job, filled in on the worker. */

import { SubletError } from "../home/mod.ts";

/** The element that becomes the arguments that name MCP servers. */
export const MCP = "{mcp}";

/** What placeholders stand for. Those that are absent stay as they are. */
export interface Values {
  readonly cwd: string;
  readonly log_dir: string;
  readonly brief: string;
  readonly prompt?: string;
  readonly session_id?: string;
}

/** `args` with every placeholder of `values` replaced, once: what is put in is not looked at again. */
export function fill(args: readonly string[], values: Values): string[] {
  const known: Readonly<Record<string, string | undefined>> = { ...values };
  return args.map((arg) =>
    arg.replace(/\{(cwd|log_dir|brief|prompt|session_id)\}/g, (whole, name) => known[name] ?? whole)
  );
}

/** `args` with its element `{mcp}` replaced by `rendered`. */
export function expandMcp(args: readonly string[], rendered: readonly string[]): string[] {
  return args.flatMap((arg) => arg === MCP ? rendered : [arg]);
}

/** Bytes of one argument that every system takes: Linux refuses 128 KiB. */
export const MAX_ARGUMENT_BYTES = 120_000;

/** Judge the arguments of a turn. Throws `failed` for what no system takes. */
export function checkArgs(args: readonly string[]): void {
  for (const arg of args) {
    const bytes = new TextEncoder().encode(arg).length;
    if (bytes <= MAX_ARGUMENT_BYTES && !arg.includes("\0")) continue;
    throw new SubletError(
      "failed",
      `an argument of ${bytes} bytes cannot be given to the agent: the limit is ${MAX_ARGUMENT_BYTES}, without NUL`,
    );
  }
}
