/** @module The versions between two commits, and what their messages say about them. */

import type { Saved } from "./contract.ts";
import { readCommits } from "./commits.ts";
import type { Git } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";

/** Fields of a message: `Key: value` on a line of its own after the subject, folded lines joined. */
function fieldsOf(message: string): [key: string, value: string][] {
  const fields: [string, string][] = [];
  const [, ...lines] = message.replace(/^\s*\n/, "").split("\n");
  let open = false;
  for (const line of lines) {
    const folded = /^[ \t]+(\S.*)$/.exec(line)?.[1];
    const last = fields.at(-1);
    if (open && folded !== undefined && last !== undefined) {
      last[1] = `${last[1]} ${folded.trim()}`;
      continue;
    }
    const [, key, value] = /^([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)$/.exec(line) ?? [];
    open = key !== undefined;
    if (key !== undefined) fields.push([key.toLowerCase(), (value ?? "").trim()]);
  }
  return fields;
}

/** What `message` says of its version. Campaigns of piloop use its own names for the same. */
export function readMessage(message: string): Omit<Saved, "revision" | "tree" | "subject"> {
  const fields = fieldsOf(message);
  const all = (name: string) =>
    fields.filter(([key]) => key === `sublet-${name}` || key === `piloop-${name}`)
      .map(([, value]) => value);
  return {
    skip: all("eval").some((value) => value.toLowerCase() === "skip"),
    notes: all("note").filter((value) => value !== ""),
    recovered: all("recovered")[0] ?? null,
  };
}

/** The versions from `base` to `head` along first parents, oldest first; at most `limit`, the newest. */
export async function readSaved(
  git: Git,
  place: Place,
  base: string,
  head: string,
  limit: number,
): Promise<Saved[]> {
  const { stdout } = await onPlace(git, place, {
    args: ["rev-list", "--first-parent", `--max-count=${limit}`, "--stdin"],
    stdin: `${head}\n^${base}\n`,
  });
  const revisions = new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
  const commits = await readCommits(git, place, revisions.reverse());
  return commits.map(({ version, message }) => ({ ...version, ...readMessage(message) }));
}
