/** @module The files of a manifest in a checkout, as read-only shared copies, and whether they stayed what they were. */

import { dirname, join } from "node:path";
import { mkdirBeneath, SubletError } from "../home/mod.ts";
import { sameBlob } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { each } from "./each.ts";
import { fileError } from "./files.ts";
import { hashFile } from "./hash_file.ts";
import { type Entry, type FileEntry, isLink, type LinkEntry, type Manifest } from "./manifest.ts";
import { type SharedInputs, sharedMode, sharedTime } from "./shared_inputs.ts";
import { readStamp, sameStamp, type Stamp } from "./stamp.ts";

/** Files that are made at once. */
const WIDTH = 16;
/** Files that are linked before others get their turn. */
const BATCH = 256;

/** A symbolic link to make. */
export interface NewLink {
  readonly target: string;
  /** Absolute; its directory is there and it is not. */
  readonly path: string;
}

/** How a tree is put in place. */
export interface MaterialiseOptions {
  /** What it is, for errors. Default `manifest`. */
  readonly what?: string;
  /** Makes symbolic links. Default: this process does, which needs permission to write anywhere. */
  readonly makeLinks?: (links: readonly NewLink[]) => Promise<void>;
  readonly signal?: AbortSignal;
}

/** A tree that is in place. */
export interface Placed {
  readonly root: string;
  readonly files: readonly PlacedFile[];
  /** Blobs whose shared copy was not what it had been, and was made again. */
  readonly rebuilt: readonly Cid[];
}

/** A thing that was put in place; what was there before is not among them. */
export interface PlacedFile {
  /** Relative to {@linkcode Placed.root}. */
  readonly path: string;
  readonly entry: Entry;
  /** Null for a symbolic link. */
  readonly stamp: Stamp | null;
}

/**
 * Put the files of `manifest` at `path` beneath `root`, or with an empty path in `root` itself: hard links to the shared
 * copies, else copies of them. What is there already stays. Throws `unsafe_path` where a directory on the way is a link, `not_found` when the store lacks a
 * blob.
 */
export async function materialise(
  manifest: Manifest,
  root: string,
  path: string,
  shared: SharedInputs,
  options: MaterialiseOptions = {},
): Promise<Placed> {
  const what = options.what ?? "manifest";
  const files: PlacedFile[] = [];
  const rebuilt: Cid[] = [];
  const links: { entry: LinkEntry; path: string }[] = [];
  const made = new Set([".", path]);
  let atOnce = 0;
  if (path !== "") mkdirBeneath(root, path, { what, mode: 0o755 });
  await each(manifest.entries, WIDTH, async (entry) => {
    options.signal?.throwIfAborted();
    const relative = path === "" ? entry.path : `${path}/${entry.path}`;
    const directory = dirname(relative);
    if (!made.has(directory)) {
      mkdirBeneath(root, directory, { what, mode: 0o755 });
      made.add(directory);
    }
    // The directory was judged, and nothing of the job runs yet: what is at the last part may stay whatever it is.
    const target = join(root, relative);
    if (isLink(entry)) {
      if (!isThere(target)) links.push({ entry, path: relative });
      return;
    }
    const stamp = linkTrusted(entry, shared, target);
    if (stamp === "taken") return;
    if (stamp !== null) {
      files.push({ path: relative, entry, stamp });
      if (++atOnce % BATCH === 0) await new Promise((resolve) => setTimeout(resolve));
      return;
    }
    if (isThere(target)) return;
    const placed = await place(entry, shared, target);
    if (placed.made) rebuilt.push(entry.blob);
    files.push({ path: relative, entry, stamp: placed.stamp });
  });
  await (options.makeLinks ?? makeLinks)(
    links.map(({ entry, path }) => ({ target: entry.link, path: join(root, path) })),
  );
  for (const { entry, path } of links) files.push({ path, entry, stamp: null });
  return { root, files, rebuilt };
}

/** Whether anything is at `path`, a dangling link too. */
function isThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Link `target` to a shared copy that is trusted: the usual case, at once. Null: it takes more than that. */
function linkTrusted(
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
    return error instanceof Deno.errors.AlreadyExists ? "taken" : null;
  }
}

/**
 * Make `target` the same file as `entry`'s shared copy, or a copy of it. A shared copy that another job has replaced,
 * or that was evicted, meanwhile is asked for once more.
 */
async function place(
  entry: FileEntry,
  shared: SharedInputs,
  target: string,
): Promise<{ stamp: Stamp; made: boolean }> {
  let made = false;
  for (let attempt = 1;; attempt++) {
    const source = await shared.copy(entry);
    made ||= source.rebuilt;
    const linked = await link(source.path, target);
    if (!linked && await readStamp(source.path) !== null) await copy(entry, source.path, target);
    const stamp = await readStamp(target);
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
async function link(source: string, target: string): Promise<boolean> {
  try {
    await Deno.link(source, target);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) {
      throw fileError(error, `cannot make ${target}`, "unavailable");
    }
    // Another device, too many links, or a file system without hard links.
    return false;
  }
}

async function copy(entry: FileEntry, source: string, target: string): Promise<void> {
  try {
    await Deno.copyFile(source, target);
    await Deno.utime(target, sharedTime(entry), sharedTime(entry));
    await Deno.chmod(target, sharedMode(entry.mode));
  } catch (error) {
    throw fileError(error, `cannot make ${target}`, "unavailable");
  }
}

async function makeLinks(links: readonly NewLink[]): Promise<void> {
  for (const { target, path } of links) await Deno.symlink(target, path);
}

/** Something that is no longer what was put there: changed, removed, or replaced by other content. */
export interface ChangedPath {
  readonly path: string;
  /** The shared copy itself has other content: whoever links to it may have written that. */
  readonly shared: boolean;
}

/** What of `placed` is no longer what was put there, by path. */
export async function changedPaths(placed: Placed): Promise<ChangedPath[]> {
  const changed: ChangedPath[] = [];
  await each(placed.files, WIDTH, async (file) => {
    const now = await stateOf(placed.root, file);
    if (now !== "same") changed.push({ path: file.path, shared: now === "shared" });
  });
  return changed.sort((a, b) => a.path < b.path ? -1 : 1);
}

async function stateOf(root: string, file: PlacedFile): Promise<"same" | "shared" | "other"> {
  const path = join(root, file.path);
  let found: Stamp | null = null;
  const other = () => found?.inode === file.stamp?.inode && found !== null ? "shared" : "other";
  try {
    if (isLink(file.entry)) {
      return await Deno.readLink(path) === file.entry.link ? "same" : "other";
    }
    found = await readStamp(path);
    if (found === null) return "other";
    if (file.stamp !== null && sameStamp(found, file.stamp)) return "same";
    if (found.size !== file.entry.size) return other();
    return sameBlob(await hashFile(path), file.entry.blob) ? "same" : other();
  } catch {
    // Whatever cannot be read there any more is not what was put there.
    return other();
  }
}
