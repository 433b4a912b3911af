/** @module Which session an agent is: its id, and the folder that its harness names after the checkout. */

import { isError, openBeneath } from "../home/mod.ts";

/** The folder that a harness names after the working directory `cwd`; null: it does not, or nobody knows how. */
export function folderOf(encoder: string, cwd: string): string | null {
  switch (encoder) {
    // Claude Code: `/home/me/x.y` is `-home-me-x-y`.
    case "dash_non_alnum":
      return cwd.replace(/[^a-zA-Z0-9]/g, "-");
    // pi: `/home/me/x.y` is `--home-me-x.y--`.
    case "dash_separators_wrapped":
      return `--${cwd.replace(/^[/\\]+/, "").replace(/[/\\:]/g, "-")}--`;
    default:
      return null;
  }
}

/** How much of a program's stdout the id of its session is looked for in. */
const HEAD_BYTES = 64 * 1024;
const MAX_LINE = 4096;
const MAX_ID = 200;

/** What finds a session's id in what an agent prints, or null for an expression that is none. */
export function sessionPattern(source: string): RegExp | null {
  try {
    // Python's named groups are written otherwise.
    return new RegExp(source.replaceAll("(?P<", "(?<"), "m");
  } catch {
    return null;
  }
}

/** The id in `text`: the first group of `pattern` in one of its lines, when it can be an id. */
export function sessionIdIn(text: string, pattern: RegExp): string | null {
  for (const line of text.split("\n")) {
    // Bounded, since an expression may take exponentially long on a line that somebody made for it.
    const id = pattern.exec(line.slice(0, MAX_LINE))?.[1];
    if (id !== undefined && id !== "" && id.length <= MAX_ID && /^[\w.:@+-]+$/.test(id)) return id;
  }
  return null;
}

/** The id in the start of the file `relative` beneath `root`, or null. */
export async function readSessionId(
  root: string,
  relative: string,
  pattern: RegExp,
): Promise<string | null> {
  try {
    await using file = await openBeneath(root, relative, { what: "output of the agent" });
    const buffer = new Uint8Array(Math.min(HEAD_BYTES, file.size));
    const length = await file.readAt(buffer, 0);
    return sessionIdIn(new TextDecoder().decode(buffer.subarray(0, length)), pattern);
  } catch (error) {
    // It removed the file, or put something else in its place.
    if (isError(error, "not_found", "unsafe_path")) return null;
    throw error;
  }
}
