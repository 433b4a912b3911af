/**
 * @module Reading where a job's repository stands: by its files, without git, since the job may have changed its
 * settings, links and formats. Nothing is followed out of it.
 */

import { lstatBeneath, openBeneath } from "../home/mod.ts";
import { isRevision } from "./names.ts";

/** Where a job's repository keeps what we read. */
export interface JobRepository {
  /** Holds HEAD and what is in progress. */
  readonly gitDir: string;
  /** Holds the refs: the same, unless it is a linked worktree. */
  readonly commonDir: string;
}

/** The head of a job's repository. */
export interface JobHead {
  /** The commit, as it is written there; null when it has none yet, or names none. */
  readonly revision: string | null;
  /** The branch that it is on. */
  readonly branch: string | null;
}

/** A name and the commit that is written for it. */
export interface Tip {
  readonly name: string;
  readonly revision: string;
}

const SMALL = 4096;
const LARGE = 4 * 1024 * 1024;
/** How many names of a job are looked at. */
const MAX_TIPS = 1000;
const MAX_DEPTH = 16;

/** The text of a plain file of the repository, or null when it is none or too large. */
async function read(root: string, name: string, most = SMALL): Promise<string | null> {
  try {
    await using file = await openBeneath(root, name, { what: "a file of a job's repository" });
    return new TextDecoder().decode(await file.bytes(most));
  } catch {
    // Whatever it is, it tells us no commit.
    return null;
  }
}

/** The commit in `text`, when that is all it says. */
function idIn(text: string | null): string | null {
  const id = text?.trim() ?? "";
  return isRevision(id) ? id : null;
}

/** The lines `ID NAME` of the packed refs. */
async function packedRefs(root: string): Promise<Map<string, string>> {
  const refs = new Map<string, string>();
  for (const line of (await read(root, "packed-refs", LARGE) ?? "").split("\n")) {
    const [, id, name] = /^([0-9a-f]{40,64}) (refs\/\S+)$/.exec(line) ?? [];
    if (id !== undefined && name !== undefined) refs.set(name, id);
  }
  return refs;
}

/** The head of a repository. */
export async function readHead({ gitDir, commonDir }: JobRepository): Promise<JobHead> {
  let text = await read(gitDir, "HEAD");
  let branch: string | null = null;
  for (let step = 0; step < 5; step++) {
    const id = idIn(text);
    if (id !== null) return { revision: id, branch };
    const name = /^ref:\s*(refs\/\S.*?)\s*$/.exec(text ?? "")?.[1];
    if (name === undefined) break;
    branch ??= plain(name.replace(/^refs\/heads\//, ""));
    text = await read(commonDir, name);
    if (text === null) {
      return { revision: (await packedRefs(commonDir)).get(name) ?? null, branch };
    }
  }
  return { revision: null, branch };
}

/** The files beneath `directory` of `root`, as paths from `root`. Links are not followed. */
async function filesBeneath(root: string, directory: string, depth = 0): Promise<string[]> {
  if (depth > MAX_DEPTH) return [];
  const found: string[] = [];
  try {
    if (!lstatBeneath(root, directory)?.isDirectory) return [];
    for await (const { name, isDirectory } of Deno.readDir(`${root}/${directory}`)) {
      if (found.length >= MAX_TIPS) break;
      const path = `${directory}/${name}`;
      if (isDirectory) found.push(...await filesBeneath(root, path, depth + 1));
      else if (!name.endsWith(".lock")) found.push(path);
    }
  } catch {
    // A directory that is none, or not ours to read, holds no ref for us.
  }
  return found.sort();
}

/** Every name of a job's own: its branches, stashes, linked worktrees, and the branch that a rebase has in hand. */
export async function readTips({ gitDir, commonDir }: JobRepository): Promise<Tip[]> {
  const tips = new Map<string, string>();
  const add = (name: string, id: string | null | undefined) => {
    if (id !== null && id !== undefined && tips.size < MAX_TIPS) tips.set(name, id);
  };
  for (const [name, id] of await packedRefs(commonDir)) {
    if (name.startsWith("refs/heads/")) add(name.slice("refs/".length), id);
  }
  for (const path of await filesBeneath(commonDir, "refs/heads")) {
    add(path.slice("refs/".length), idIn(await read(commonDir, path)));
  }
  const stashes = (await read(commonDir, "logs/refs/stash", LARGE) ?? "").split("\n");
  const older = stashes.map((line) => line.split(" ")[1]).filter((id) => id !== undefined);
  older.reverse().forEach((id, at) => add(`stash@{${at}}`, idIn(id)));
  add("stash@{0}", idIn(await read(commonDir, "refs/stash")));
  for (const name of ["rebase-merge/orig-head", "rebase-apply/orig-head"]) {
    add(name, idIn(await read(gitDir, name)));
  }
  for (const path of await filesBeneath(commonDir, "worktrees")) {
    const name = /^worktrees\/([^/]+)\/HEAD$/.exec(path)?.[1];
    if (name === undefined) continue;
    const { revision } = await readHead({ gitDir: `${commonDir}/worktrees/${name}`, commonDir });
    add(`worktrees/${name}`, revision);
  }
  return [...tips].map(([name, revision]) => ({ name: plain(name), revision }));
}

/** A linked worktree of a job's repository. */
export interface JobWorktree {
  readonly name: string;
  readonly path: string;
}

/** The linked worktrees of a repository that are directories beneath `root`, where the job may put them. */
export async function readWorktrees(
  { commonDir }: JobRepository,
  root: string,
): Promise<JobWorktree[]> {
  const found: JobWorktree[] = [];
  const real = await Deno.realPath(root).catch(() => null);
  if (real === null) return [];
  for (const file of await filesBeneath(commonDir, "worktrees")) {
    const name = /^worktrees\/([^/]+)\/gitdir$/.exec(file)?.[1];
    const path = /^(\/.*)\/\.git\n?$/s.exec(await read(commonDir, file) ?? "")?.[1];
    if (name === undefined || path === undefined) continue;
    const at = await Deno.realPath(path).catch(() => null);
    if (at !== path || !at.startsWith(`${real}/`)) continue;
    if ((await Deno.lstat(path)).isDirectory) found.push({ name, path });
  }
  return found;
}

/** What was going on in the repository, in words. */
export function readProgress({ gitDir }: JobRepository): string[] {
  const states: readonly (readonly [file: string, what: string])[] = [
    ["MERGE_HEAD", "a merge"],
    ["rebase-merge", "a rebase"],
    ["rebase-apply", "a rebase or an application of patches"],
    ["CHERRY_PICK_HEAD", "a cherry-pick"],
    ["REVERT_HEAD", "a revert"],
    ["BISECT_LOG", "a bisection"],
  ];
  return states.filter(([file]) => {
    try {
      return lstatBeneath(gitDir, file) !== null;
    } catch {
      return false;
    }
  }).map(([, what]) => `${what} was in progress: files are saved as they were, conflict marks too`);
}

function plain(name: string): string {
  // deno-lint-ignore no-control-regex -- names are the job's to choose, and are shown to people
  return name.replace(/[\u0000-\u001f\u007f]/g, "?").slice(0, 255);
}
