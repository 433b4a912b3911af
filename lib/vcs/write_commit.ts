/** @module Writing a commit as an object: no identity is looked up, no hook runs, nothing is signed. */

import type { Git } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";

/** A commit to write. */
export interface NewCommit {
  readonly tree: string;
  readonly parents: readonly string[];
  readonly message: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

const AUTHOR = "sublet <sublet@localhost>";

/** Write `commit` into the repository at `place`; its id. */
export async function writeCommit(git: Git, place: Place, commit: NewCommit): Promise<string> {
  const who = `${AUTHOR} ${Math.max(0, Math.floor(commit.at / 1000))} +0000`;
  const lines = [
    `tree ${commit.tree}`,
    ...commit.parents.map((parent) => `parent ${parent}`),
    `author ${who}`,
    `committer ${who}`,
    "",
    // A NUL would end the message for git, and half a character is none.
    `${commit.message.replaceAll("\0", "").toWellFormed().trim()}\n`,
  ];
  const { stdout } = await onPlace(git, place, {
    args: ["hash-object", "-t", "commit", "-w", "--stdin"],
    stdin: lines.join("\n"),
  });
  return new TextDecoder().decode(stdout).trim();
}
