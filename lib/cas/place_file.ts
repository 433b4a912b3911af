/** @module One file of a tree in a checkout: the same file as its shared copy, or a copy of that. */

import { existsSync } from "node:fs";
import { SubletError } from "../home/mod.ts";
import type { FileEntry } from "./manifest.ts";
import { settle } from "./shared_file.ts";
import type { SharedInputs } from "./shared_inputs.ts";
import { placeError } from "./tree_place.ts";
import { readStampSync, sameStamp, type Stamp } from "./stamp.ts";

/** Whether anything is at `path`, a dangling link too. */
export function isThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw placeError(error, `cannot look at ${path}`);
  }
}

/** Link `target` to a shared copy that is trusted: the usual case, at once. Null: it takes more than that. */
export function linkTrusted(
  entry: FileEntry,
  shared: SharedInputs,
  target: string,
): Stamp | "taken" | null {
  const copy = shared.trusted(entry);
  if (copy === null) return null;
  try {
    Deno.linkSync(copy.path, target);
    return copy.stamp;
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) return null;
    // An attempt that failed later on may have put it there.
    const there = readStampSync(target);
    return there !== null && isCopy(there, copy.stamp) ? there : "taken";
  }
}

/** Whether a file is a copy of the shared one, or that itself: of a checkout, none has its time and may not be written. */
function isCopy(there: Stamp, shared: Stamp): boolean {
  return sameStamp({ ...there, inode: shared.inode }, shared);
}

/**
 * Make `target` the same file as `entry`'s shared copy, or a copy of it. Null: something is there. A shared copy that another job has replaced,
 * or that was evicted, meanwhile is asked for once more.
 */
export async function placeFile(
  entry: FileEntry,
  shared: SharedInputs,
  target: string,
): Promise<{ stamp: Stamp; made: boolean } | null> {
  if (existsSync(target)) return null;
  let made = false;
  for (let attempt = 1;; attempt++) {
    const source = await shared.copy(entry);
    made ||= source.rebuilt;
    const linked = link(source.path, target);
    if (linked === "taken" || (!linked && isThere(target))) return null;
    if (!linked && readStampSync(source.path) !== null) await copy(entry, source.path, target);
    const stamp = readStampSync(target);
    if (stamp !== null && (!linked || sameStamp(stamp, source.stamp))) return { stamp, made };
    if (attempt === 2) {
      throw new SubletError(
        "integrity",
        `${target} is not the shared copy of ${entry.blob}: another job changes it. Try again`,
      );
    }
    if (stamp !== null) await Deno.remove(target);
  }
}

/** Whether a hard link could be made. */
function link(source: string, target: string): boolean | "taken" {
  try {
    Deno.linkSync(source, target);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return "taken";
    // Another device, too many links, or a file system without hard links.
    return false;
  }
}

async function copy(entry: FileEntry, source: string, target: string): Promise<void> {
  try {
    await Deno.copyFile(source, target);
    settle(entry, target);
  } catch (error) {
    // A part of it would pass for what was there before.
    await Deno.remove(target).catch(() => {});
    throw placeError(error, `cannot make ${target}`);
  }
}
