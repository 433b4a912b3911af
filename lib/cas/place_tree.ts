/** @module A tree from a store, as files of its own in a new directory. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { SubletError } from "../home/mod.ts";
import type { Cas, Cid } from "./contract.ts";
import { each } from "./each.ts";
import { fileError } from "./files.ts";
import { type Entry, type FileEntry, isLink } from "./manifest.ts";
import { Manifests } from "./manifests.ts";
import { fetchShared } from "./shared_file.ts";
import { Directories, placeError } from "./tree_place.ts";

const WIDTH = 16;

/** How a tree is placed. */
export interface PlaceTreeOptions {
  readonly signal?: AbortSignal;
  /** Told, as it goes, of the files so far and their bytes. */
  readonly progress?: (files: number, bytes: number) => void;
}

/**
 * Write the files of the manifest at `cid` into the directory `root`, which is made, or is there and empty. Symbolic
 * links come last, so that nothing is written through one. Throws as `readManifest` does, `conflict` for a directory
 * that has something in it, `not_found` when the store lacks a file.
 */
export async function placeTree(
  cas: Cas,
  cid: Cid,
  root: string,
  options: PlaceTreeOptions = {},
): Promise<{ readonly files: number; readonly bytes: number }> {
  // A manifest that is damaged is found to be so before anything is made.
  const tree = await new Manifests(cas).open(cid);
  await makeEmpty(root);
  const directories = new Directories(root, "manifest");
  let files = 0;
  let bytes = 0;
  const write = async (entry: FileEntry) => {
    options.signal?.throwIfAborted();
    directories.above(entry.path);
    await writeFile(cas, entry, join(root, entry.path));
    files++;
    bytes += entry.size;
    options.progress?.(files, bytes);
  };
  for await (const batch of tree.batches()) {
    const { first, alike } = apart(batch);
    await each(first, WIDTH, write);
    await each(alike, 1, write);
  }
  if (tree.summary.links === 0) return { files, bytes };
  for await (const batch of tree.batches()) {
    options.signal?.throwIfAborted();
    for (const entry of batch) {
      if (!isLink(entry)) continue;
      directories.above(entry.path);
      await Deno.symlink(entry.link, join(root, entry.path)).catch((error) => {
        throw placeError(error, `cannot make ${join(root, entry.path)}`);
      });
      files++;
    }
  }
  return { files, bytes };
}

/** The files of `batch`: those whose names some file systems take for one of the `first` come after these. */
function apart(batch: readonly Entry[]): { first: FileEntry[]; alike: FileEntry[] } {
  const names = new Set<string>();
  const [first, alike]: [FileEntry[], FileEntry[]] = [[], []];
  for (const entry of batch) {
    if (isLink(entry)) continue;
    const name = entry.path.normalize("NFC").toLowerCase();
    (names.has(name) ? alike : first).push(entry);
    names.add(name);
  }
  return { first, alike };
}

/** A file of the tree is there already: it would be replaced, and nobody would know. */
function taken(path: string): SubletError {
  return new SubletError(
    "conflict",
    `${
      JSON.stringify(path)
    } is there already: the file system takes it and another path of the tree for one. ` +
      "Write the tree to one that tells upper case from lower case",
  );
}

async function makeEmpty(root: string): Promise<void> {
  try {
    await Deno.mkdir(root, { recursive: true });
    for await (const { name } of Deno.readDir(root)) {
      throw new SubletError(
        "conflict",
        `${root} has ${JSON.stringify(name)} in it: name a new directory, or an empty one`,
      );
    }
  } catch (error) {
    throw fileError(error, `cannot make ${root}`, "unavailable");
  }
}

async function writeFile(cas: Cas, entry: FileEntry, path: string): Promise<void> {
  if (existsSync(path)) throw taken(entry.path);
  try {
    await fetchShared(cas, entry, path);
    if (entry.mtimeNs !== undefined) {
      const time = new Date(Number(entry.mtimeNs / 1_000_000n));
      Deno.utimeSync(path, time, time);
    }
    // What runs as somebody else is not brought back.
    Deno.chmodSync(path, entry.mode & 0o777);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) throw taken(entry.path);
    // A file that is there is whole.
    await Deno.remove(path).catch(() => {});
    throw placeError(error, `cannot make ${path}`);
  }
}
