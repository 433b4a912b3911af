/** @module What differs in a checkout from an index: as git sees it, without running anything that a job configured. */

import type { Git } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";
import { fields, openable, rawBytes, type RawPath, rawPath, shown } from "./raw_path.ts";
import { unlockDirectories } from "./remove_tree.ts";

/** Paths of a checkout that differ. */
export interface Difference {
  /** Held by the index, and gone. */
  readonly removed: RawPath[];
  /** Held by the index and changed, or not held by it and not ignored. */
  readonly changed: RawPath[];
  /** Directories that hold a repository of their own. */
  readonly nested: RawPath[];
  /** What could not be looked into. */
  readonly unreadable: { readonly path: string; readonly reason: string }[];
}

/** A pipe in place of an ignore file would have git wait for ever. */
const LISTING_MS = 20 * 60 * 1000;

const DIFF = ["diff-files", "-z", "--name-status", "--no-renames", "--no-ext-diff"];
const OTHERS = ["ls-files", "-z", "--others", "--exclude-standard"];

/** What `workTree` has beyond the index of `jail`. */
export async function differenceOf(
  git: Git,
  jail: Place,
  workTree: string,
): Promise<Difference> {
  const call = { gitDir: jail.gitDir, workTree, cwd: workTree, timeoutMs: LISTING_MS };
  const list = () =>
    Promise.all([
      onPlace(git, jail, { ...call, args: [...DIFF, "--ignore-submodules=all"] }),
      onPlace(git, jail, { ...call, args: OTHERS }),
    ]);
  let [diff, others] = await list();
  if (/Permission denied/.test(diff.stderr + others.stderr)) {
    // Directories that the job closed, and that are ours to open.
    await unlockDirectories(workTree);
    [diff, others] = await list();
  }
  const removed: RawPath[] = [];
  const changed: RawPath[] = [];
  const nested: RawPath[] = [];
  const states = fields(diff.stdout);
  for (let at = 0; at + 1 < states.length; at += 2) {
    (states[at] === "D" ? removed : changed).push(states[at + 1] ?? "");
  }
  for (const path of fields(others.stdout)) {
    if (path.endsWith("/")) nested.push(path.slice(0, -1));
    else changed.push(path);
  }
  return { removed, changed, nested, unreadable: unreadableIn(others.stderr) };
}

function unreadableIn(stderr: string): Difference["unreadable"] {
  const found: { path: string; reason: string }[] = [];
  for (const line of stderr.split("\n")) {
    const [, path, reason] = /could not open directory '(.*?)\/?': (.*)$/.exec(line) ?? [];
    if (path !== undefined) {
      found.push({ path, reason: `the directory cannot be read: ${reason ?? ""}` });
    }
  }
  return found;
}

/** What may be taken, judged by `lstat`. */
export interface Judged {
  readonly path: RawPath;
  /** Bytes; 0 when it cannot be told. */
  readonly size: number;
  /** Why it is not to be taken, or null. */
  readonly refused: string | null;
}

/** Look at `path` of `workTree`, and make a file of ours readable. */
export async function judgeFile(workTree: string, path: RawPath): Promise<Judged> {
  const name = openable(path);
  // Its bytes are no name that we can open: git alone can.
  if (name === null) return { path, size: 0, refused: null };
  try {
    const info = await Deno.lstat(`${workTree}/${name}`);
    if (info.isSymlink) return { path, size: info.size, refused: null };
    if (!info.isFile) {
      return {
        path,
        size: 0,
        refused: info.isDirectory
          ? "it is a directory"
          : "it is no file or link: a pipe, a socket or a device",
      };
    }
    if (((info.mode ?? 0o400) & 0o400) === 0) {
      // When it is not ours to open, git says so.
      await Deno.chmod(`${workTree}/${name}`, (info.mode ?? 0) & 0o777 | 0o600).catch(() => {});
    }
    return { path, size: info.size, refused: null };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return { path, size: 0, refused: null };
    }
    return { path, size: 0, refused: error instanceof Error ? error.message : String(error) };
  }
}

/** What is not looked at: each of `paths`, and what is in it. */
export function ignoredPaths(paths: readonly string[]): Set<RawPath> {
  return new Set(paths.map((path) => rawPath(path.replace(/^\.\//, "").replace(/\/+$/, ""))));
}

/** Whether `path` is one of `ignored`, or in one of them. */
export function isIgnored(path: RawPath, ignored: ReadonlySet<RawPath>): boolean {
  if (ignored.size === 0) return false;
  if (ignored.has(path)) return true;
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    if (ignored.has(path.slice(0, at))) return true;
  }
  return false;
}

/** `paths` as NUL-terminated input for git. */
export function asInput(paths: readonly string[]): Uint8Array {
  return rawBytes(paths.map((path) => `${path}\0`).join(""));
}

/** The path in `stderr` that git could not take, when it names one of `paths`. */
export function namedIn(stderr: string, paths: readonly RawPath[]): RawPath | null {
  const named = /Unable to process path (.*)/.exec(stderr)?.[1];
  return named === undefined ? null : paths.find((path) => shown(path) === named) ?? null;
}
