/**
 * @module The processes that stand in a job's directory: with their working or root directory in it, or one of their
 * first three files open there. That finds what dropped the job's tag along with its whole environment.
 */

import { ask, LINUX, processAt } from "./process_table.ts";

/** Start times are told to the hundredth of a second, and what they count from wanders by one. */
const SLACK_SECONDS = 1.5;
const LOOK =
  "cd /proc && exec stat -c %N [0-9]*/cwd [0-9]*/root [0-9]*/fd/0 [0-9]*/fd/1 [0-9]*/fd/2";

/** `path` as `stat` prints names in its style `escape`: one line, in ASCII. */
export function escaped(path: string): string {
  const named: Record<number, string> = {
    7: "a",
    8: "b",
    9: "t",
    10: "n",
    11: "v",
    12: "f",
    13: "r",
  };
  return [...new TextEncoder().encode(path)].map((byte) => {
    if (byte === 0x5c) return "\\\\";
    if (byte >= 0x20 && byte < 0x7f) return String.fromCharCode(byte);
    return `\\${named[byte] ?? byte.toString(8).padStart(3, "0")}`;
  }).join("");
}

/** The pids whose lines of {@linkcode LOOK}'s output lead to `place` or beneath it. */
export function parseLinks(text: string, place: string): number[] {
  const names = new Set([escaped(place), latin1Of(place)]);
  const found = new Set<number>();
  for (const line of text.split("\n")) {
    const [, pid, path] = /^'?(\d+)\/(?:cwd|root|fd\/[012])'? -> '?(.*?)'?$/.exec(line) ?? [];
    if (pid === undefined || path === undefined) continue;
    for (const name of names) {
      if (isIn(path, name)) found.add(Number(pid));
    }
  }
  return [...found];
}

/** The pids that `lsof -F pn` names files beneath `place` of. */
export function parseLsof(text: string, place: string): number[] {
  const found = new Set<number>();
  let pid = 0;
  for (const line of text.split("\n")) {
    if (line.startsWith("p")) pid = Number(line.slice(1));
    else if (line.startsWith("n") && isIn(line.slice(1), latin1Of(place))) found.add(pid);
  }
  return [...found];
}

function isIn(path: string, place: string): boolean {
  return path === place || path.startsWith(`${place}/`) || path === `${place} (deleted)`;
}

/** A path's bytes, as {@linkcode ask} decodes them. */
function latin1Of(path: string): string {
  return String.fromCharCode(...new TextEncoder().encode(path));
}

/**
 * The living processes that stand in `place`, an absolute path without links, and that started at `since` (seconds since
 * 1970) or later; null: whenever. Not this one. Those that the system hides from us (another user's, or one that asked
 * not to be looked at) are not found.
 */
export async function standingIn(place: string, since: number | null): Promise<number[]> {
  const pids = LINUX
    ? parseLinks(await ask("/bin/sh", "-c", LOOK), place)
    : parseLsof(await ask("lsof", "-wnP", "-d", "cwd,rtd,0,1,2", "-F", "pn"), place);
  const found: number[] = [];
  for (const pid of pids) {
    if (pid === Deno.pid) continue;
    const process = await processAt(pid);
    if (process === null || process.zombie) continue;
    const start = process.startTime;
    // Who was there before the job, such as a person's shell, is none of it.
    if (since !== null && start !== null && start < since - SLACK_SECONDS) continue;
    found.push(pid);
  }
  return found;
}
