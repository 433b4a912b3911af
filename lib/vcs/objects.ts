/** @module Ids of what a commit holds at some paths: equal ids hold equal content. */

import { safeRelative } from "../home/mod.ts";
import type { Git } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";

/** Ids of the files and directories among `paths` that `revision` holds, by path. One process for all of them. */
export async function readObjects(
  git: Git,
  place: Place,
  revision: string,
  paths: readonly string[],
): Promise<Map<string, string>> {
  const asked = paths.map((path) => `${revision}:${safeRelative(path, "a path of a checkout")}`);
  if (asked.length === 0) return new Map();
  const { stdout } = await onPlace(git, place, {
    args: ["cat-file", "--batch-check=%(objectname)", "-z"],
    stdin: asked.map((question) => `${question}\0`).join(""),
  });
  const found = new Map<string, string>();
  // An answer is an id, or the question (which may hold line breaks) and "missing".
  let rest = new TextDecoder().decode(stdout);
  for (const [index, path] of paths.entries()) {
    const missing = `${asked[index]} missing\n`;
    if (rest.startsWith(missing)) {
      rest = rest.slice(missing.length);
      continue;
    }
    const end = rest.indexOf("\n");
    found.set(path, rest.slice(0, end));
    rest = rest.slice(end + 1);
  }
  return found;
}
