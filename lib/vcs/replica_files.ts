/** @module The files of a worker's replica: made whole or not at all, swept, and emptied of what is damaged. */

import type { Ids } from "../home/mod.ts";
import type { Git } from "./git_call.ts";
import { formatOf, isRevision, type ObjectFormat, PINS } from "./names.ts";
import { originOf, ownCheckouts, sweepOwn } from "./own.ts";
import type { Place } from "./place.ts";
import { somethingAt } from "./remove_tree.ts";
import { ourWorktrees } from "./worktree.ts";

/** The files and directories in `directory`, or none when it is not there. */
async function entries(directory: string): Promise<Deno.DirEntry[]> {
  try {
    return await Array.fromAsync(Deno.readDir(directory));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

async function remove(path: string): Promise<void> {
  if (await somethingAt(path)) await Deno.remove(path, { recursive: true });
}

/** A new, empty, bare repository beside `path`. */
async function skeleton(
  git: Git,
  path: string,
  format: ObjectFormat,
  ids: Ids,
): Promise<string> {
  const parent = path.slice(0, path.lastIndexOf("/"));
  await Deno.mkdir(parent, { recursive: true });
  const made = `${path}.making-${ids.uuid()}`;
  await git.run({
    cwd: parent,
    args: [
      "init",
      "--quiet",
      "--bare",
      "--template=",
      "--initial-branch=main",
      `--object-format=${format}`,
      made.slice(parent.length + 1),
    ],
  });
  return made;
}

/** The format of the replica at `path`: as it says or, when it is too damaged to, as the names of its packs show. */
async function readFormat(path: string): Promise<ObjectFormat> {
  const config = await Deno.readTextFile(`${path}/config`).catch(() => "");
  if (/^\s*objectformat\s*=\s*sha256\s*$/im.test(config)) return "sha256";
  if (/^\s*repositoryformatversion\s*=/im.test(config)) return "sha1";
  const packs = await entries(`${path}/objects/pack`);
  return packs.some(({ name }) => /^pack-[0-9a-f]{64}\./.test(name)) ? "sha256" : "sha1";
}

/** A replica is not synced to disk: what a power cut spoils is fetched again, and each step is two syncs quicker. */
function placeAt(path: string, format: ObjectFormat): Place {
  return { gitDir: path, commonDir: path, format, settings: ["core.fsync=none"] };
}

/** Where the replica at `path` is, or null when there is none. */
export async function findReplica(path: string): Promise<Place | null> {
  if (!await somethingAt(`${path}/HEAD`)) return null;
  return placeAt(path, await readFormat(path));
}

/** Make the replica at `path`, empty: it is there in full or not at all. */
export async function makeReplica(
  git: Git,
  path: string,
  format: ObjectFormat,
  ids: Ids,
): Promise<Place> {
  const place = placeAt(path, format);
  const made = await skeleton(git, path, format, ids);
  try {
    if (await somethingAt(path)) await mend(made, place);
    else await Deno.rename(made, path);
  } finally {
    await remove(made);
  }
  return place;
}

/** Remove what an earlier process of this worker left behind: locks, temporary files, unfinished checkouts. */
export async function sweepReplica(place: Place, ids: Ids): Promise<void> {
  const root = place.commonDir;
  const parent = root.slice(0, root.lastIndexOf("/"));
  const name = root.slice(root.lastIndexOf("/") + 1);
  for (const entry of await entries(parent)) {
    if (entry.name.startsWith(`${name}.making-`)) await remove(`${parent}/${entry.name}`);
  }
  await remove(`${root}/sublet-tmp`);
  for (const { name } of await entries(root)) {
    if (name.endsWith(".lock")) await remove(`${root}/${name}`);
  }
  for (const { name } of await entries(`${root}/objects/pack`)) {
    if (name.startsWith("tmp_") || name.endsWith(".lock")) {
      await remove(`${root}/objects/pack/${name}`);
    }
  }
  const open = [`${root}/refs`];
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    for (const entry of await entries(directory)) {
      const path = `${directory}/${entry.name}`;
      if (entry.isDirectory) open.push(path);
      else if (entry.name.endsWith(".lock") || await isJunkPin(place, path)) await remove(path);
    }
  }
  for (const { path, admin } of await ourWorktrees(place)) {
    if (path === "" || !await somethingAt(`${path}/.git`)) await remove(admin);
  }
  await sweepOwn(place, ids);
}

/** Whether the ref at `path` is a pin that does not say what it is named by: a power cut empties files. */
async function isJunkPin({ commonDir }: Place, path: string): Promise<boolean> {
  if (!path.startsWith(`${commonDir}/${PINS}`)) return false;
  const text = await Deno.readTextFile(path).catch(() => "");
  return text.trim() !== path.slice(path.lastIndexOf("/") + 1);
}

/**
 * Give the damaged replica at `place` a fresh skeleton. All that it fetched goes, and comes again: an object that is
 * left would tell of others that are not. What jobs have is not among it: each checkout has a repository of its own.
 */
async function mend(made: string, place: Place): Promise<void> {
  const root = place.commonDir;
  await remove(`${root}/packed-refs`);
  for (const name of ["HEAD", "config", "refs", "objects"]) {
    await remove(`${root}/${name}`);
    await Deno.rename(`${made}/${name}`, `${root}/${name}`);
  }
}

/** How many commits are brought again after a rebuild, beside those of checkouts. */
const MAX_PINNED = 5000;

/** The commits that jobs may be using: those of checkouts, and what was fetched for them, as far as that can be read. */
export async function inUse(place: Place): Promise<string[]> {
  const pins = (await entries(`${place.commonDir}/${PINS}`).catch(() => [])).map(({ name }) =>
    name
  );
  const packed = await Deno.readTextFile(`${place.commonDir}/packed-refs`).catch(() => "");
  const names = packed.matchAll(/^[0-9a-f]+ refs\/sublet\/fetched\/([0-9a-f]+)$/gm);
  pins.push(...Array.from(names, ([, name = ""]) => name));
  const pinned = pins.filter((name) => isRevision(name) && formatOf(name) === place.format);
  return [...new Set([...await checkedOut(place), ...pinned.slice(0, MAX_PINNED)])];
}

async function checkedOut(place: Place): Promise<string[]> {
  const heads: string[] = [];
  for (const { admin } of await ourWorktrees(place)) {
    const head = (await Deno.readTextFile(`${admin}/HEAD`).catch(() => "")).trim();
    if (isRevision(head)) heads.push(head);
  }
  for (const own of await ownCheckouts(place)) {
    const origin = await originOf(own);
    if (origin !== null) heads.push(origin.base);
  }
  return heads;
}
