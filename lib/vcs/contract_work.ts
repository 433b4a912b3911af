/** @module What the contract of version control says of versions, of merging them, and of bringing work home. */

import type { Cid } from "../cas/mod.ts";

/** A saved version. */
export interface Version {
  /** Full commit id, lower-case hex: 40 digits (SHA-1) or 64 (SHA-256). */
  readonly revision: string;
  /** Id of its tree: equal trees hold equal files. */
  readonly tree: string;
  /** First paragraph of its message, as one line. */
  readonly subject: string;
}

/** A version that somebody saved, with what its message says about it. */
export interface Saved extends Version {
  /** Whether its message asks for no evaluation: `Sublet-Eval: skip`. */
  readonly skip: boolean;
  /** What its message says to readers: each `Sublet-Note: …`, in order. */
  readonly notes: readonly string[];
  /** What left the work that was saved for it: `Sublet-Recovered: …`. Null: it saved it itself. */
  readonly recovered: string | null;
}

/** Versions on their way between machines, as a report's `work` names them. */
export interface Transfer {
  /** The bundle. */
  readonly blob: Cid;
  /** The version that they lead to. */
  readonly head: string;
}

/** A name that an agent gave to versions beside its head, such as a branch it left. */
export interface Branch {
  /** Such as `heads/topic`, `stash` or `worktrees/x`: plain text for people, at most 255 characters, no ref to write. */
  readonly name: string;
  readonly revision: string;
}

/** A path of a checkout that could not be saved. */
export interface LeftOut {
  /** As it is in the checkout; bytes that are no UTF-8 are replaced. */
  readonly path: string;
  /** Why, in words, and where its content still is when it is somewhere. */
  readonly reason: string;
}

/** What to take of a checkout. */
export interface CaptureOptions {
  /** Paths in the checkout that were put there from elsewhere (linked inputs): files, or directories with all in them. */
  readonly ignore?: readonly string[];
  /** The message of the version that holds unsaved work. Default: one that says so, with `Sublet-Recovered: agent`. */
  readonly message?: string;
  /** A larger unsaved file is left out. Bytes; default 1 GiB. */
  readonly maxFileBytes?: number;
  /** Unsaved files beyond this many bytes together are left out. Default 8 GiB. */
  readonly maxBytes?: number;
  /** Unsaved files beyond so many are left out. Default 200,000. */
  readonly maxFiles?: number;
  readonly signal?: AbortSignal;
}

/** What `Repository.capture` took. */
export interface Captured {
  /**
   * Everything that the checkout has beyond its base: the saved versions, the unsaved work on top of them, and
   * `branches`. Null: there is nothing. Its head is the base when only `branches` hold something.
   */
  readonly work: Transfer | null;
  /** Bytes of the transfer. */
  readonly bytes: number;
  /** The version that holds unsaved work: the head, made by `capture`. Null: all was saved. */
  readonly unsaved: Version | null;
  /** Versions that the head does not lead to: other branches, stashes. They are in the transfer too. */
  readonly branches: readonly Branch[];
  /** What could not be saved, at most 1,000 of them. */
  readonly leftOut: readonly LeftOut[];
  /** How many could not be saved. */
  readonly leftOutCount: number;
  /** What a reader should know, in words: a merge in progress, a repository within, a damaged `.git`. */
  readonly notes: readonly string[];
}

/** Why a path cannot be merged. */
export type ConflictKind =
  /** Both changed the same lines, or added the file with other content. */
  | "content"
  /** Both changed a file that is no text. */
  | "binary"
  /** One changed it, the other removed it. */
  | "modify/delete"
  | "rename/delete"
  | "rename/rename"
  /** A file on one side is a directory on the other. */
  | "file/directory"
  /** A file, a link or a submodule on one side is another of them on the other. */
  | "type"
  | "submodule"
  | "other";

/** A path that two versions cannot agree on. */
export interface Conflict {
  readonly path: string;
  readonly kind: ConflictKind;
  /** What the tool says about it, in one line. */
  readonly message: string;
}

/** What {@linkcode Repository.merge} came to. */
export type Merged =
  | { readonly kind: "merged"; readonly version: Version }
  | { readonly kind: "conflicts"; readonly conflicts: readonly Conflict[] };
