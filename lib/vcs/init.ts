/** @module Making a directory a repository, and saving what `sublet init` wrote there. */

import { lstatBeneath, openBeneath, safeRelative, writeBeneath } from "../home/mod.ts";
import type { InitOptions } from "./contract.ts";
import { type Git, GitFailure } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";

const IGNORE_FILE = ".gitignore";
const MAX_IGNORE_BYTES = 1024 * 1024;

/** Make `path` a repository, on a branch `main` that has no commit yet. */
export async function makeRepository(git: Git, path: string): Promise<void> {
  await git.run({
    cwd: path,
    args: ["init", "--quiet", "--template=", "--initial-branch=main", path],
  });
}

/** Append those of `patterns` that the ignore file of `root` lacks; whether any was. */
async function addPatterns(root: string, patterns: readonly string[]): Promise<boolean> {
  const there = lstatBeneath(root, IGNORE_FILE);
  let text = "";
  if (there !== null) {
    await using file = await openBeneath(root, IGNORE_FILE, { what: "the ignore file" });
    text = new TextDecoder().decode(await file.bytes(MAX_IGNORE_BYTES));
  }
  const lines = new Set(text.split("\n").map((line) => line.trim()));
  const wanted = [...new Set(patterns.map((pattern) => pattern.replaceAll(/[\r\n]/g, "").trim()))];
  const lacking = wanted.filter((pattern) => pattern !== "" && !lines.has(pattern));
  if (lacking.length === 0) return false;
  const start = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  const whole = new TextEncoder().encode(`${start}${lacking.join("\n")}\n`);
  await writeBeneath(root, IGNORE_FILE, whole, { mode: (there?.mode ?? 0o644) & 0o777 });
  return true;
}

const lines = (bytes: Uint8Array) =>
  new TextDecoder().decode(bytes).split("\0").filter((name) => name !== "");

/**
 * Save files of the checkout of `place` at `root` as a commit on its branch: all of them while it has none (`head` is
 * null), else those that the caller owns. The paths that it changes. What a person has staged stays staged.
 */
export async function saveInit(
  git: Git,
  place: Place,
  root: string,
  head: string | null,
  options: InitOptions,
): Promise<string[]> {
  const owned = options.owned.map((path) => safeRelative(path, "a file to save"));
  const ignores = await addPatterns(root, options.ignore);
  const paths = ignores ? [...new Set([...owned, IGNORE_FILE])] : owned;
  const call = { gitDir: place.gitDir, workTree: root, cwd: root };
  if (head === null) await onPlace(git, place, { ...call, args: ["add", "--all", "--", "."] });
  else if (paths.length > 0) {
    await onPlace(git, place, { ...call, args: ["add", "--force", "--", ...paths] });
  }
  const only = head === null ? [] : ["--", ...paths];
  if (head !== null && paths.length === 0) return [];
  const staged = head === null
    ? await onPlace(git, place, { ...call, args: ["ls-files", "--cached", "-z"] })
    : await onPlace(git, place, {
      ...call,
      args: ["diff-index", "--cached", "--name-only", "-z", head, ...only],
    });
  const saved = lines(staged.stdout);
  if (saved.length === 0 && head !== null) return [];
  try {
    await onPlace(git, place, {
      ...call,
      args: [
        "commit",
        "--quiet",
        "--no-verify",
        "--no-gpg-sign",
        "--allow-empty",
        "--file=-",
        ...only,
      ],
      stdin: `${options.summary}\n`,
    });
  } catch (error) {
    if (!(error instanceof GitFailure) || !/nothing to commit/.test(error.stderr)) throw error;
    return [];
  }
  return saved;
}
