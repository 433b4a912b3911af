/**
 * @module Checkouts of a replica: each is a repository of its own, which borrows the replica's objects
 * (gitrepository-layout(5), "objects/info/alternates"). What a job does to it (settings, hooks, branches, a garbage
 * collection) reaches neither the replica nor another job, and what the job commits is there alone.
 */

import { createHash } from "node:crypto";
import { type Ids, messageOf, safeRelative, SubletError, writeBeneath } from "../home/mod.ts";
import type { Git } from "./git_call.ts";
import { isRevision, type ObjectFormat } from "./names.ts";
import { onPlace, type Place } from "./place.ts";
import { removeTree, somethingAt } from "./remove_tree.ts";

/** A checkout with a repository of its own. */
export interface OwnCheckout {
  readonly path: string;
  /** Our record of it, in the replica: what it was at, and its index as it was. */
  readonly root: string;
  /** Its repository, the job's to change. */
  readonly gitDir: string;
}

/** The state of a checkout when it was made. */
export interface Origin {
  /** Its revision. */
  readonly base: string;
  /** Its path with every link in it followed: a path that leads elsewhere now was exchanged. */
  readonly real: string;
}

const directory = (place: Place) => `${place.commonDir}/sublet-checkouts`;

/** The checkout at `path`. Its record goes by the path, so a checkout finds its own again. */
export function ownCheckout(place: Place, path: string): OwnCheckout {
  const digest = createHash("sha256").update(path).digest("hex").slice(0, 24);
  const root = `${directory(place)}/${digest}`;
  return { path, root, gitDir: `${root}/git` };
}

/** Nothing of the job's git is to run on after it. */
const NO_UPKEEP = "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n";

/** The settings of a new repository of `format`. */
export function plainConfig(format: ObjectFormat, more = ""): string {
  const version = format === "sha256" ? 1 : 0;
  const extension = format === "sha256" ? "[extensions]\n\tobjectFormat = sha256\n" : "";
  return `[core]\n\trepositoryFormatVersion = ${version}\n\tbare = false\n${more}${extension}`;
}

/** Lay out an empty repository at `gitDir` that borrows the objects in `borrowed`. */
export async function layOut(
  gitDir: string,
  head: string,
  config: string,
  borrowed: readonly string[],
): Promise<void> {
  await Deno.mkdir(`${gitDir}/objects/info`, { recursive: true });
  await Promise.all([
    ...["objects/pack", "refs/heads", "refs/tags", "info"].map((name) =>
      Deno.mkdir(`${gitDir}/${name}`, { recursive: true })
    ),
    Deno.writeTextFile(`${gitDir}/HEAD`, `${head}\n`),
    Deno.writeTextFile(`${gitDir}/config`, config),
    Deno.writeTextFile(
      `${gitDir}/objects/info/alternates`,
      borrowed.map((path) => `${path}\n`).join(""),
    ),
  ]);
}

/** Put the files of `revision` at `path`, where nothing is, in a repository of their own; the path of its index. */
export async function addOwn(
  git: Git,
  place: Place,
  revision: string,
  path: string,
  ids: Ids,
): Promise<string> {
  const { root, gitDir } = ownCheckout(place, path);
  await removeOwn(place, path, ids);
  try {
    await Deno.mkdir(root, { recursive: true });
    await Deno.mkdir(path, { recursive: true });
    await Promise.all([
      Deno.writeTextFile(`${root}/path`, path),
      Deno.writeTextFile(`${root}/real`, await Deno.realPath(path)),
      Deno.writeTextFile(`${root}/base`, revision),
      layOut(gitDir, revision, plainConfig(place.format) + NO_UPKEEP, [
        `${place.commonDir}/objects`,
      ]),
      Deno.writeTextFile(`${path}/.git`, `gitdir: ${gitDir}\n`, { createNew: true }),
    ]);
  } catch (error) {
    throw new SubletError("failed", `cannot make a checkout at ${path}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  await onPlace(git, place, {
    gitDir,
    workTree: path,
    cwd: path,
    args: ["read-tree", "--reset", "-u", revision],
  });
  await keepIndex(gitDir, root);
  return `${root}/index`;
}

/** Keep the index as it is now: the job's own is the job's to change, or to mark files in as never changed. */
async function keepIndex(gitDir: string, root: string): Promise<void> {
  await Deno.copyFile(`${gitDir}/index`, `${root}/index`);
  const { mtime } = await Deno.stat(`${gitDir}/index`);
  await ageIndex(`${root}/index`, mtime);
}

/**
 * Give the index at `path` the time at which it was written, or an earlier one. Git takes an entry for unchanged
 * without reading its file when that is older than the index: one that was changed in the same second is not.
 */
export async function ageIndex(path: string, mtime: Date | null): Promise<void> {
  const seconds = Math.floor((mtime?.getTime() ?? 0) / 1000);
  await Deno.utime(path, seconds, seconds);
}

/** What the checkout was made of, or null when there is no such checkout. */
export async function originOf({ root }: OwnCheckout): Promise<Origin | null> {
  const read = (name: string) => Deno.readTextFile(`${root}/${name}`).catch(() => "");
  const [base, real] = await Promise.all([read("base"), read("real")]);
  return isRevision(base) && real !== "" ? { base, real } : null;
}

/** The pattern that names `path` alone (gitignore(5)). A line break has none, and is matched by any character. */
function patternOf(path: string): string {
  const plain = path.replaceAll(/[\\*?[]/g, "\\$&").replaceAll(/[\r\n]/g, "?");
  return `/${plain.replace(/ +$/, (blanks) => "\\ ".repeat(blanks.length))}`;
}

/** Have git pass over `paths` of the checkout when it adds all files. */
export async function passOver(own: OwnCheckout, paths: readonly string[]): Promise<void> {
  const patterns = paths.map((path) => `${patternOf(safeRelative(path, "an input"))}\n`).join("");
  const text = new TextEncoder().encode(patterns);
  await writeBeneath(own.gitDir, "info/exclude", text, { what: "the excludes of a checkout" });
}

/** The checkouts of `place` that have a repository of their own. */
export async function ownCheckouts(place: Place): Promise<OwnCheckout[]> {
  const found: OwnCheckout[] = [];
  try {
    for await (const { name } of Deno.readDir(directory(place))) {
      if (!/^[0-9a-f]{24}$/.test(name)) continue;
      const root = `${directory(place)}/${name}`;
      // A directory without it is one that was never finished.
      const path = await Deno.readTextFile(`${root}/path`).catch(() => "");
      found.push({ path, root, gitDir: `${root}/git` });
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return found;
}

/** Remove the repository of the checkout at `path`. Repeatable. */
export async function removeOwn(place: Place, path: string, ids: Ids): Promise<void> {
  const { root } = ownCheckout(place, path);
  if (await somethingAt(root)) await removeTree(root, ids);
}

/** Remove the repositories of checkouts whose job is gone with its whole directory: until then they hold its commits. */
export async function sweepOwn(place: Place, ids: Ids): Promise<void> {
  for (const { path, root } of await ownCheckouts(place)) {
    const parent = path.slice(0, path.lastIndexOf("/"));
    if (path === "" || (parent !== "" && !await somethingAt(parent))) await removeTree(root, ids);
  }
}
