/** @module Where the repository of a checkout stands that a job has left, as far as it is true. */

import type { Clock } from "../home/mod.ts";
import type { Git } from "./git_call.ts";
import { tameObjects } from "./jail.ts";
import {
  type JobHead,
  type JobRepository,
  type JobWorktree,
  readHead,
  readProgress,
  readTips,
  readWorktrees,
  type Tip,
} from "./job_refs.ts";
import { formatOf } from "./names.ts";
import type { Origin, OwnCheckout } from "./own.ts";
import { onPlace, type Place } from "./place.ts";

/** A checkout that a job has left. */
export interface LeftCheckout {
  readonly path: string;
  readonly base: string;
  /** Its repository. */
  readonly job: JobRepository;
  /** Our record of it, when its repository is its own. */
  readonly own: OwnCheckout | null;
  /** What our record of it was made of. */
  readonly origin: Origin | null;
}

/** What capturing works with. */
export interface CaptureParts {
  readonly git: Git;
  /** The replica, or the repo of record. */
  readonly place: Place;
  readonly clock: Clock;
  /** A fresh path beneath the place, for a directory of ours that is removed afterwards. */
  readonly scratch: string;
}

/** Where the job's repository stands, as far as it is true. */
export interface Standing {
  readonly head: JobHead;
  /** Commits with names, all here, but for the head. */
  readonly tips: readonly Tip[];
  readonly borrowed: readonly string[];
  /** Linked worktrees beside the checkout, or in it. */
  readonly worktrees: readonly JobWorktree[];
  /** Null: the checkout's files cannot be looked at. */
  readonly workTree: string | null;
  /** Its git directory, when what it excludes holds. */
  readonly excludesOf: string | null;
  readonly notes: readonly string[];
}

/** Read where the job's repository stands. */
export async function standingOf(parts: CaptureParts, left: LeftCheckout): Promise<Standing> {
  const objects = `${parts.place.commonDir}/objects`;
  const notes: string[] = [];
  const workTree = await workTreeOf(left, notes);
  const nothing = { tips: [], worktrees: [], borrowed: [objects], workTree, notes };
  if (left.own === null) {
    return { ...nothing, head: await readHead(left.job), excludesOf: left.job.commonDir };
  }
  // A link could lead to a repository that is none of the job's.
  if (!await isDirectory(left.own.root) || !await isDirectory(left.own.gitDir)) {
    notes.push("the job's repository is gone: what it committed is not there");
    return { ...nothing, head: { revision: null, branch: null }, excludesOf: null };
  }
  const own = await tameObjects(left.own.gitDir, objects);
  if (own === null) {
    notes.push("the objects of the job's repository are gone: what it committed is not there");
  }
  notes.push(...readProgress(left.job));
  return {
    head: await readHead(left.job),
    tips: await readTips(left.job),
    worktrees: await readWorktrees(left.job, left.path.slice(0, left.path.lastIndexOf("/"))),
    borrowed: own === null ? [objects] : [own, objects],
    workTree,
    excludesOf: left.job.commonDir,
    notes,
  };
}

async function isDirectory(path: string): Promise<boolean> {
  return await Deno.lstat(path).then((info) => info.isDirectory, () => false);
}

/** The checkout's directory, when it is the one that was made. */
async function workTreeOf({ path, origin }: LeftCheckout, notes: string[]): Promise<string | null> {
  const info = await Deno.lstat(path).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return null;
    if (error instanceof Deno.errors.NotADirectory) return null;
    throw error;
  });
  if (info === null) notes.push("the checkout's directory is gone");
  else if (!info.isDirectory) {
    notes.push("the checkout is no directory any more: it is not followed");
  } else {
    if (origin === null || await Deno.realPath(path) === origin.real) return path;
    notes.push("the checkout's path leads elsewhere now: it is not followed");
  }
  return null;
}

/** Those of `revisions` that are commits which `jail` can read, by what is written; tags are followed. */
export async function commitsOf(
  git: Git,
  jail: Place,
  revisions: readonly string[],
): Promise<Map<string, string>> {
  const asked = [...new Set(revisions)].filter((id) => formatOf(id) === jail.format);
  if (asked.length === 0) return new Map();
  const { stdout } = await onPlace(git, jail, {
    args: ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
    stdin: asked.map((id) => `${id}^{commit}\n`).join(""),
  });
  const found = new Map<string, string>();
  for (const [at, line] of new TextDecoder().decode(stdout).split("\n").entries()) {
    const [, id] = /^([0-9a-f]+) commit$/.exec(line) ?? [];
    const from = asked[at];
    if (id !== undefined && from !== undefined) found.set(from, id);
  }
  return found;
}

/** Those of `tips` that `known` does not lead to. */
export async function beyond(
  git: Git,
  jail: Place,
  tips: readonly Tip[],
  known: readonly string[],
): Promise<Tip[]> {
  const asked = tips.filter(({ revision }) => !known.includes(revision));
  if (asked.length === 0) return [];
  const lines = [...asked.map(({ revision }) => revision), ...known.map((id) => `^${id}`)];
  const { stdout } = await onPlace(git, jail, {
    args: ["rev-list", "--stdin"],
    stdin: lines.map((line) => `${line}\n`).join(""),
  });
  const left = new Set(new TextDecoder().decode(stdout).split("\n"));
  return asked.filter(({ revision }) => left.has(revision));
}
