/**
 * @module Merging without a checkout: `git merge-tree --write-tree` (git 2.38 and newer), whose `-z` output says which
 * paths conflict and why (git-merge-tree(1), "output").
 */

import { SubletError } from "../home/mod.ts";
import { readCommits } from "./commits.ts";
import type { Conflict, ConflictKind, Merged } from "./contract.ts";
import { damagedStore, type Git } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";
import { writeCommit } from "./write_commit.ts";

/** How many commits of each side are looked through for equal files. */
const MAX_COMPARED = 20_000;
/** How many conflicts are told. */
const MAX_CONFLICTS = 10_000;

/** What merging two commits comes to. */
export type MergedTree =
  | { readonly tree: string }
  | { readonly conflicts: readonly Conflict[] };

/** The beginnings of what git calls the kinds of conflicts, most telling first. */
const KINDS: readonly (readonly [RegExp, ConflictKind])[] = [
  [/submodule/, "submodule"],
  [/file\/directory|directory\/file/, "file/directory"],
  [/modify\/delete/, "modify/delete"],
  [/rename\/delete/, "rename/delete"],
  [/rename/, "rename/rename"],
  [/binary/, "binary"],
  [/distinct (modes|types)/, "type"],
  [/contents?|add\/add/, "content"],
];

/** The conflicts in the `-z` output of a merge that did not come off. */
export function parseConflicts(output: string): Conflict[] {
  const fields = output.split("\0");
  // A tree, the conflicted entries, an empty field, then messages: a count, as many paths, a kind, a text.
  let at = 1;
  const paths = new Set<string>();
  for (; at < fields.length && fields[at] !== ""; at++) {
    const path = /^\d+ [0-9a-f]+ [0-3]\t(.*)$/s.exec(fields[at] ?? "")?.[1];
    if (path !== undefined) paths.add(path);
  }
  at++;
  const found = new Map<string, Conflict>();
  while (at < fields.length && found.size < MAX_CONFLICTS) {
    const count = Number(fields[at]);
    if (fields[at] === "" || !Number.isSafeInteger(count)) break;
    const named = fields.slice(at + 1, at + 1 + count);
    const [type = "", text = ""] = fields.slice(at + 1 + count);
    at += count + 3;
    if (!type.startsWith("CONFLICT")) continue;
    const kind = KINDS.find(([pattern]) => pattern.test(type))?.[1] ?? "other";
    const message = text.replaceAll(/\s+/g, " ").trim().slice(0, 1000);
    // Of several paths the first is what conflicts, the others are where it was or went.
    const path = named.find((each) => paths.has(each)) ?? named[0];
    if (path !== undefined && !found.has(path)) found.set(path, { path, kind, message });
  }
  for (const path of paths) {
    if (found.size >= MAX_CONFLICTS) break;
    if (found.has(path)) continue;
    found.set(path, { path, kind: "other", message: "it cannot be merged" });
  }
  return [...found.values()];
}

/** Merge `other` onto `onto`, at their merge base as git finds it. */
export async function mergeTree(
  git: Git,
  place: Place,
  onto: string,
  other: string,
): Promise<MergedTree> {
  const { code, stdout, stderr } = await onPlace(git, place, {
    args: ["merge-tree", "--write-tree", "-z", "--allow-unrelated-histories", onto, other],
    answers: [0, 1],
  });
  const output = new TextDecoder().decode(stdout);
  const tree = /^[0-9a-f]+/.exec(output)?.[0];
  if (tree === undefined) throw damagedStore(place.commonDir, stderr);
  return code === 0 ? { tree } : { conflicts: parseConflicts(output) };
}

/** Commits that `one` has and `other` has not, newest first, with their trees. */
async function beyond(
  git: Git,
  place: Place,
  one: string,
  other: string,
): Promise<[revision: string, tree: string][]> {
  const { stdout } = await onPlace(git, place, {
    args: ["log", "-z", `--max-count=${MAX_COMPARED}`, "--format=%H %T", "--stdin"],
    stdin: `${one}\n^${other}\n`,
  });
  return new TextDecoder().decode(stdout).split("\0").filter((line) => line !== "").map((line) => {
    const [revision = "", tree = ""] = line.trim().split(" ");
    return [revision, tree];
  });
}

/**
 * Merge `other` onto `onto`. Where both sides hold one state of the files in commits of their own (a history that was
 * copied or rebased), the newest such state is the base. `merge-tree --merge-base`, which git has since 2.40 alone,
 * would do for that; two commits on one parent do with every git.
 */
async function mergeAlike(
  git: Git,
  place: Place,
  onto: string,
  other: string,
): Promise<MergedTree> {
  const [ours, theirs] = await Promise.all([
    beyond(git, place, onto, other),
    beyond(git, place, other, onto),
  ]);
  const states = new Set(ours.map(([, tree]) => tree));
  const [base] = theirs.find(([, tree]) => states.has(tree)) ?? [];
  const [, ontoTree] = ours[0] ?? [];
  const [, otherTree] = theirs[0] ?? [];
  if (base === undefined || ontoTree === undefined || otherTree === undefined) {
    return await mergeTree(git, place, onto, other);
  }
  // Always the same for the same trees, so merging again leaves no more objects behind.
  const alike = (tree: string) =>
    writeCommit(git, place, { tree, parents: [base], message: "Side of a merge", at: 0 });
  const sides = await Promise.all([alike(ontoTree), alike(otherTree)]);
  return await mergeTree(git, place, sides[0], sides[1]);
}

/** Whether `descendant` descends from `ancestor`, or is it. */
export async function isAncestor(
  git: Git,
  place: Place,
  ancestor: string,
  descendant: string,
): Promise<boolean> {
  const { code } = await onPlace(git, place, {
    args: ["merge-base", "--is-ancestor", ancestor, descendant],
    answers: [0, 1],
  });
  return code === 0;
}

/** Save the merge of `other` onto `onto` as a commit. What `onto` has all of already is `onto` itself. */
export async function mergeVersions(
  git: Git,
  place: Place,
  onto: string,
  other: string,
  message: string,
  at: number,
): Promise<Merged> {
  const [ours] = await readCommits(git, place, [onto, other]);
  if (ours === undefined) throw new SubletError("not_found", `commit ${onto} is not there`);
  const same: Merged = { kind: "merged", version: ours.version };
  if (await isAncestor(git, place, other, onto)) return same;
  const merged = await mergeAlike(git, place, onto, other);
  if ("conflicts" in merged) return { kind: "conflicts", conflicts: merged.conflicts };
  const { tree } = merged;
  if (tree === ours.version.tree) return same;
  const commit = await writeCommit(git, place, { tree, parents: [onto, other], message, at });
  const [made] = await readCommits(git, place, [commit]);
  if (made === undefined) throw new SubletError("failed", `the merge ${commit} is gone again`);
  return { kind: "merged", version: made.version };
}
