/**
 * @module A private repository for looking at a checkout that a job has left: it borrows the objects of the job and of
 * the replica, and has settings of its own, so that nothing the job wrote is read as a setting, and nothing of the
 * job's is written to.
 */

import { isError, isHostFault, lstatBeneath, openBeneath, type SubletError } from "../home/mod.ts";
import { GitFailure } from "./git_call.ts";
import { ageIndex, layOut, plainConfig } from "./own.ts";
import type { Place } from "./place.ts";
import { unlockDirectories } from "./remove_tree.ts";

/** What a job may have written to speed up or bend how its objects are read is left unread. */
const CONFIG =
  "\texcludesFile = /dev/null\n\tcommitGraph = false\n\tmultiPackIndex = false\n\tlogAllRefUpdates = false\n";
const MAX_EXCLUDE_BYTES = 1024 * 1024;

/**
 * Whether `error` is git's, about what it was given to read: trying another way may do. A fault of this machine, and a
 * git that was killed, are not.
 */
export function isContentFault(error: unknown): error is SubletError {
  if (isHostFault(error)) return false;
  if (error instanceof GitFailure) return error.exitCode <= 128;
  return isError(error, "not_found");
}

/** What a jail starts from. */
export interface JailOptions {
  /** Directories of objects that it borrows. */
  readonly borrowed: readonly string[];
  /** An index that git wrote for us, when its checkout was made. */
  readonly index?: string | null;
  /** The job's git directory, whose `info/exclude` holds. */
  readonly excludesOf?: string | null;
}

/** Make a jail at `gitDir`, where nothing is. The caller removes it. */
export async function makeJail(of: Place, gitDir: string, options: JailOptions): Promise<Place> {
  const { borrowed, index = null, excludesOf = null } = options;
  await layOut(gitDir, "ref: refs/heads/none", plainConfig(of.format, CONFIG), borrowed);
  if (excludesOf !== null) await copyExcludes(excludesOf, gitDir);
  if (index !== null) await copyIndex(index, gitDir);
  return { gitDir, commonDir: gitDir, format: of.format, settings: ["core.fsync=none"] };
}

async function copyIndex(index: string, gitDir: string): Promise<void> {
  let found: Deno.FileInfo;
  try {
    found = await Deno.stat(index);
    await Deno.copyFile(index, `${gitDir}/index`);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  await ageIndex(`${gitDir}/index`, found.mtime);
}

/** Patterns of the job's `info/exclude` are data alone. One that cannot be read leaves nothing out. */
async function copyExcludes(jobDir: string, gitDir: string): Promise<void> {
  try {
    await using file = await openBeneath(jobDir, "info/exclude", { what: "the job's excludes" });
    await Deno.writeFile(`${gitDir}/info/exclude`, await file.bytes(MAX_EXCLUDE_BYTES));
  } catch (error) {
    if (!isError(error, "not_found", "unsafe_path", "too_large")) throw error;
  }
}

/**
 * Make the objects of a job's repository safe to borrow: they may lead to `borrowed` alone. Links among them, which
 * could lead to objects that are none of the job's, are removed. Null: there are none to borrow.
 */
export async function tameObjects(gitDir: string, borrowed: string): Promise<string | null> {
  try {
    return await tame(gitDir, borrowed);
  } catch (error) {
    if (isError(error, "unsafe_path")) return null;
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    await unlockDirectories(gitDir);
    return await tame(gitDir, borrowed);
  }
}

async function tame(gitDir: string, borrowed: string): Promise<string | null> {
  const at = (name: string) => lstatBeneath(gitDir, name);
  if (at("objects")?.isDirectory !== true) return null;
  await dropLinks(`${gitDir}/objects`, 2);
  if (at("objects/info")?.isDirectory !== true) {
    if (at("objects/info") !== null) await Deno.remove(`${gitDir}/objects/info`);
    await Deno.mkdir(`${gitDir}/objects/info`);
  }
  const alternates = `${gitDir}/objects/info/alternates`;
  if (at("objects/info/alternates") !== null) await Deno.remove(alternates, { recursive: true });
  await Deno.writeTextFile(alternates, `${borrowed}\n`, { createNew: true });
  return `${gitDir}/objects`;
}

async function dropLinks(directory: string, depth: number): Promise<void> {
  for (const { name, isDirectory, isFile } of await Array.fromAsync(Deno.readDir(directory))) {
    const path = `${directory}/${name}`;
    if (isDirectory && depth > 0) await dropLinks(path, depth - 1);
    else if (!isDirectory && !isFile) await Deno.remove(path);
  }
}
