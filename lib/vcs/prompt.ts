/** @module What the texts for agents say about git. */

import type { Part } from "./contract.ts";

const PROMPTS: Readonly<Record<Part, string>> = {
  repo: "a git repository",
  checkout:
    "a git checkout of your own, at a detached HEAD. Other jobs do not see it, and it has no remote: nothing is pushed.",
  save:
    "Commit your work with `git add` and `git commit`, in as many commits as you like. What the checkout's HEAD leads to " +
    "when you end is brought back. Changed files, and new ones that no .gitignore names, are saved for you as one more " +
    "commit when you left them uncommitted. Do not add submodules or repositories of their own: their files are not carried.",
  versions:
    "Each commit on the first-parent line from where you started to HEAD is a version, oldest first.",
  skip:
    "A commit whose message has a line `Sublet-Eval: skip` after its subject is not evaluated, and one with " +
    "`Sublet-Note: TEXT` tells TEXT to whoever reads its result.",
  earlier: "Earlier versions are commits, named by their full id.",
  old_files: "`git restore --source=COMMIT -- PATH` brings files of an earlier commit back.",
  show: "`git show COMMIT` shows what a commit changed.",
  read: "`git show COMMIT:PATH` prints a file as it was in a commit.",
  port: "`git cherry-pick COMMIT` takes the change of another commit over.",
  code: "commit",
};

/** What to say about `part`. */
export function promptOf(part: Part): string {
  return PROMPTS[part];
}
