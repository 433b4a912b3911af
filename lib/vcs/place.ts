/** @module Where a repository's own files are. */

import { Git, type GitCall } from "./git_call.ts";
import type { ObjectFormat } from "./names.ts";

/** The directories of a repository, all absolute. */
export interface Place {
  /** Git directory of the checkout: HEAD and index. The common one, unless it is a linked worktree. */
  readonly gitDir: string;
  /** What all its worktrees share: objects and refs. */
  readonly commonDir: string;
  readonly format: ObjectFormat;
  /** Settings that hold over the repository's own, such as those that turn its filter programs off. */
  readonly settings: readonly string[];
}

/** Run git on `place`. */
export function onPlace(
  git: Git,
  place: Place,
  call: Omit<GitCall, "cwd" | "gitDir"> & { readonly cwd?: string; readonly gitDir?: string },
): ReturnType<Git["run"]> {
  return git.run({
    cwd: place.commonDir,
    gitDir: place.commonDir,
    ...call,
    settings: [...place.settings, ...(call.settings ?? [])],
  });
}
