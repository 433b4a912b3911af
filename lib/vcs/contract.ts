/**
 * @module The contract of a version control provider: it keeps a campaign's versions, moves them between machines
 * through the CAS, and puts their files where a job runs.
 */

import type { Cas, Cid } from "../cas/mod.ts";
import type {
  Captured,
  CaptureOptions,
  Merged,
  Saved,
  Transfer,
  Version,
} from "./contract_work.ts";

export type * from "./contract_work.ts";

/** A passage of the texts for agents that a provider words: see {@linkcode Vcs.prompt}. */
export type Part =
  /** What the campaign's repository is. */
  | "repo"
  /** What the directory is that the agent works in. */
  | "checkout"
  /** How to save work so that it comes back. */
  | "save"
  /** What becomes of the saved versions. */
  | "versions"
  /** How to save a version that is not to be evaluated. */
  | "skip"
  /** How to name earlier versions. */
  | "earlier"
  /** How to get files of an earlier version. */
  | "old_files"
  /** How to see what a version changed. */
  | "show"
  /** How to read a file of a version. */
  | "read"
  /** How to take a change over from another version. */
  | "port"
  /** What a version's code is called. */
  | "code";

/** What {@linkcode Vcs.init} is told. */
export interface InitOptions {
  /** The message of the version that it saves. */
  readonly summary: string;
  /** Files that the caller wrote there: of a repository that exists already, these alone are saved. */
  readonly owned: readonly string[];
  /** Patterns that the repository is to leave out from now on. */
  readonly ignore: readonly string[];
}

/** What {@linkcode Repository.send} put into the CAS. */
export interface Sent {
  /** The bundle. */
  readonly blob: Cid;
  /** Its size. */
  readonly bytes: number;
}

/**
 * Asks the repo of record to put what `revisions` have beyond `have` into the CAS; the blobs to take, in order.
 * Rejects with `not_sent` when it cannot.
 */
export type Ask = (
  revisions: readonly string[],
  have: readonly string[],
) => Promise<readonly Cid[]>;

/** Where a replica gets what it lacks. */
export interface Supply {
  readonly cas: Cas;
  readonly ask: Ask;
}

/** What {@linkcode Vcs.checks} found, for `doctor`. */
export interface Check {
  readonly name: string;
  readonly ok: boolean;
  /** What was found and, when it is not ok, what to do. */
  readonly detail: string;
}

/**
 * A repository. Revisions are full commit ids; any other text is `invalid_request`. A failure of the tool behind it
 * is `failed` with what that tool said.
 */
export interface Repository {
  /** Absolute path that it was opened at. */
  readonly path: string;

  /** The version that the checkout is at. `not_found` when there is no commit yet. */
  head(): Promise<Version>;
  /** The version that a branch, a tag or a revision (abbreviated too) names, or `not_found`. */
  version(name: string): Promise<Version>;
  /** The newest `limit` versions up to `revision` (default: the head), newest first. */
  history(limit: number, revision?: string): Promise<Version[]>;
  /** Those of `revisions` that are here. */
  has(revisions: readonly string[]): Promise<Set<string>>;
  /** At most `max` tips (default 64), newest by committer date first: the `have` of {@linkcode Ask}. */
  tips(max?: number): Promise<string[]>;
  /** Whether `revision` has all of `ancestor`: it descends from it, or merging it in changes nothing. */
  contains(revision: string, ancestor: string): Promise<boolean>;
  /** Those of `names` (paths) that `revision` does not hold. */
  untracked(revision: string, names: readonly string[]): Promise<string[]>;
  /** Ids of the files and directories among `paths` that `revision` holds, by path: equal ids hold equal content. */
  objects(revision: string, paths: readonly string[]): Promise<Map<string, string>>;
  /** Keep `revision` under the ref `name` (`refs/…`), also when whatever named it is gone. */
  keep(revision: string, name: string): Promise<void>;
  /** The versions that were kept under names that begin with `prefix` (`refs/…/`), in the order of their numbers. */
  kept(prefix: string): Promise<Version[]>;
  /**
   * The versions from `base` (not among them) to `head`, oldest first, along first parents: what was merged in is not
   * among them. At most `limit`, the newest (default 10,000). When `head` does not descend from `base`: from where they
   * part. A `head` that is `base` has none.
   */
  saved(base: string, head: string, limit?: number): Promise<Saved[]>;
  /**
   * Merge `other` onto `onto` and save that as a version, without a checkout, or tell what conflicts. When `onto` has
   * all of `other` already it is the version itself. Histories that were copied or rebased merge at the newest version
   * whose files are equal in both.
   */
  merge(onto: string, other: string, message: string): Promise<Merged>;

  /**
   * Put what `revisions` have beyond `have` into `cas`, or null when nothing is. Revisions that are not here are left
   * out, on both sides.
   */
  send(
    cas: Cas,
    revisions: readonly string[],
    have: readonly string[],
    signal?: AbortSignal,
  ): Promise<Sent | null>;
  /**
   * Take a transfer that {@linkcode Repository.capture} or {@linkcode Repository.send} put into `cas`, and return the versions from `base` to its head, as
   * {@linkcode Repository.saved} does. It pins nothing: `keep` what is to stay. `failed` for what is no transfer of
   * versions, and for one whose head does not come.
   */
  receive(cas: Cas, work: Transfer, base: string, signal?: AbortSignal): Promise<Saved[]>;
  /** Take those of `revisions` that are lacking, and pin them. `not_found` when one is lacking afterwards. */
  fetch(
    cas: Cas,
    revisions: readonly string[],
    ask: Ask,
    signal?: AbortSignal,
  ): Promise<void>;

  /**
   * Put the files of `revision` at `path` (absolute), detached; what is there is removed first. With a `supply`, what
   * is lacking is fetched first, and a damaged replica is rebuilt once: this one call is the fast way to a checkout.
   * Refused with `failed` when the files would not be what was saved (submodules, Git LFS). In a checkout of a replica
   * the job has a repository of its own: what it does to it (settings, hooks, branches) reaches no other job.
   */
  checkout(revision: string, path: string, supply?: Supply, signal?: AbortSignal): Promise<void>;
  /**
   * Have the job's own tool pass over `paths` of the checkout at `path`, which were put there from elsewhere: when the
   * job saves all its files, they are not among them. Nothing happens for a checkout that has no repository of its own.
   */
  passOver(path: string, paths: readonly string[]): Promise<void>;
  /** Remove what `checkout` put at `path`. Repeatable; nothing fails when it is gone, or something else is there. */
  discard(path: string): Promise<void>;
  /** The paths under `root` that `checkout` made and `discard` did not remove yet. */
  checkouts(root: string): Promise<string[]>;
  /**
   * Whether the checkout of `base` at `path`, which `checkout` made, is no longer as it was: a version was saved, the
   * head was moved, or a file outside of `ignore` differs.
   */
  changed(path: string, base: string, options?: Pick<CaptureOptions, "ignore">): Promise<boolean>;
  /**
   * Put what the checkout of `base` at `path`, which `checkout` made, has beyond `base` into `cas`: the versions that
   * were saved there and, as one more on top, all work that was not (changed files, and new ones that no ignore file
   * of the checkout names). It runs nothing that the checkout's hooks, settings or attributes name, needs no identity,
   * reads no setting that a job wrote, and changes nothing at `path`, so it can be tried again. What cannot be saved is
   * named in the answer; a fault of this machine or of `cas` rejects. Call it when the job's processes have ended.
   */
  capture(cas: Cas, path: string, base: string, options?: CaptureOptions): Promise<Captured>;
}

/** A provider's table of a campaign's file, which its jobs carry as `artifact.vcs`. */
export type Table = Readonly<Record<string, unknown>>;

/** A version control provider. A `table` that it cannot use is `invalid_request`; without one its defaults hold. */
export interface Vcs {
  /**
   * Make the directory at `path` a repository with all its files as the first version or, when it is one already, save
   * `owned` as a version on its head; the paths that were saved or changed for it, none when all was so already.
   * Patterns of `ignore` that its ignore file lacks are appended to it.
   */
  init(path: string, options: InitOptions): Promise<string[]>;
  /**
   * Clone the repository at `url` (https, http, ssh, git, or an absolute path) to `path`, where nothing may be yet: it
   * is there in full or not at all. The `credential` (`user:password`, or a token alone) is for the host of `url` and
   * is in no argument, variable or setting. `failed` with what the other side said.
   */
  clone(url: string, path: string, credential?: string | null): Promise<Repository>;
  /** The repository of the checkout (or the bare repository) at `path`, or `not_found`. */
  open(path: string, table?: Table): Promise<Repository>;
  /** A worker's replica at `path`: made on its first fetch when none is there, and repaired when it is damaged. */
  replica(path: string, table?: Table): Promise<Repository>;
  /** The project that the checkout at `path` is, the same for each clone of it: `host/owner/name`, or its path. */
  identity(path: string): Promise<string>;
  /** The main checkout that `path` is in, also from one that `checkout` made. Null: none. */
  root(path: string): Promise<string | null>;
  /** What the texts for agents say about `part` with this provider. */
  prompt(part: Part): string;
  /** Whether the provider can work on this machine. Changes nothing. */
  checks(): Promise<Check[]>;
}
