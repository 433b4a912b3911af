/**
 * @module The contract of a version control provider: it keeps a campaign's versions, moves them between machines
 * through the CAS, and puts their files where a job runs.
 */

import type { Cas, Cid } from "../cas/mod.ts";

/** A saved version. */
export interface Version {
  /** Full commit id, lower-case hex: 40 digits (SHA-1) or 64 (SHA-256). */
  readonly revision: string;
  /** Id of its tree: equal trees hold equal files. */
  readonly tree: string;
  /** First paragraph of its message, as one line. */
  readonly subject: string;
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
  /** Take what {@linkcode Repository.send} put into `cas`, in order. It pins nothing. */
  receive(cas: Cas, blobs: readonly Cid[], signal?: AbortSignal): Promise<void>;
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
   * Refused with `failed` when the files would not be what was saved (submodules, Git LFS).
   */
  checkout(revision: string, path: string, supply?: Supply, signal?: AbortSignal): Promise<void>;
  /** Remove what `checkout` put at `path`. Repeatable; nothing fails when it is gone, or something else is there. */
  discard(path: string): Promise<void>;
  /** The paths under `root` that `checkout` made and `discard` did not remove yet. */
  checkouts(root: string): Promise<string[]>;
}

/** A provider's table of a campaign's file, which its jobs carry as `artifact.vcs`. */
export type Table = Readonly<Record<string, unknown>>;

/** A version control provider. A `table` that it cannot use is `invalid_request`; without one its defaults hold. */
export interface Vcs {
  /** The repository of the checkout (or the bare repository) at `path`, or `not_found`. */
  open(path: string, table?: Table): Promise<Repository>;
  /** A worker's replica at `path`: made on its first fetch when none is there, and repaired when it is damaged. */
  replica(path: string, table?: Table): Promise<Repository>;
  /** The project that the checkout at `path` is, the same for each clone of it: `host/owner/name`, or its path. */
  identity(path: string): Promise<string>;
  /** The main checkout that `path` is in, also from one that `checkout` made. Null: none. */
  root(path: string): Promise<string | null>;
  /** Whether the provider can work on this machine. Changes nothing. */
  checks(): Promise<Check[]>;
}
