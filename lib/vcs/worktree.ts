/**
 * @module Checkouts as linked worktrees (gitrepository-layout(5)). Their files are written here and filled by one
 * `read-tree`: `git worktree add` runs three processes, and looks at every other worktree first.
 */

import { createHash } from "node:crypto";
import { SubletError } from "../home/mod.ts";
import type { Git } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";
import { somethingAt } from "./remove_tree.ts";

const OURS = "sublet-";

/** The administrative directory of the checkout at `path`. It goes by the path, so a checkout finds its own again. */
export function adminDir(place: Place, path: string): string {
  const digest = createHash("sha256").update(path).digest("hex").slice(0, 24);
  return `${place.commonDir}/worktrees/${OURS}${digest}`;
}

/** Remove the registration of the checkout at `path`. Repeatable. */
export async function unregister(place: Place, path: string): Promise<void> {
  const admin = adminDir(place, path);
  if (await somethingAt(admin)) await Deno.remove(admin, { recursive: true });
}

/** Register `path`, a new directory, as a worktree of `place` that is detached at `revision`. */
async function register(place: Place, path: string, revision: string): Promise<string> {
  const admin = adminDir(place, path);
  await unregister(place, path);
  await Deno.mkdir(path, { recursive: true });
  await Deno.writeTextFile(`${path}/.git`, `gitdir: ${admin}\n`, { createNew: true });
  await Deno.mkdir(admin, { recursive: true });
  await Promise.all([
    Deno.writeTextFile(`${admin}/gitdir`, `${path}/.git\n`),
    Deno.writeTextFile(`${admin}/commondir`, "../..\n"),
    Deno.writeTextFile(`${admin}/HEAD`, `${revision}\n`),
  ]);
  return admin;
}

/** Put the files of `revision` at `path`, where nothing is, and return the path of its index. */
export async function addWorktree(
  git: Git,
  place: Place,
  revision: string,
  path: string,
): Promise<string> {
  let admin: string;
  try {
    admin = await register(place, path, revision);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new SubletError("failed", `cannot make a checkout at ${path}: ${reason}`, {
      cause: error,
    });
  }
  await onPlace(git, place, {
    gitDir: admin,
    workTree: path,
    cwd: path,
    args: ["read-tree", "--reset", "-u", revision],
  });
  return `${admin}/index`;
}

/** The paths of the checkouts of `place` that `addWorktree` made, with their administrative directories. */
export async function ourWorktrees(
  place: Place,
): Promise<{ readonly path: string; readonly admin: string }[]> {
  const found: { path: string; admin: string }[] = [];
  try {
    for await (const { name } of Deno.readDir(`${place.commonDir}/worktrees`)) {
      if (!name.startsWith(OURS)) continue;
      const admin = `${place.commonDir}/worktrees/${name}`;
      // A directory without it is one that was never finished.
      const gitFile = await Deno.readTextFile(`${admin}/gitdir`).catch(() => "");
      found.push({ path: gitFile.replace(/\/\.git\s*$/, ""), admin });
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return found;
}
