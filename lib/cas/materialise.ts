/** @module The files of a manifest in a checkout, as read-only shared copies. */

import { join } from "node:path";
import { setImmediate } from "node:timers";
import { each } from "./each.ts";
import { type FileEntry, isLink } from "./manifest.ts";
import type { Tree } from "./manifests.ts";
import { isThere, linkTrusted, placeFile } from "./place_file.ts";
import { Placed } from "./placed.ts";
import type { SharedInputs } from "./shared_inputs.ts";
import { Directories, placeError } from "./tree_place.ts";

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

/**
 * Put the files of `tree` at `path` beneath `root`, or with an empty path in `root` itself: hard links to the shared
 * copies, else copies of them. What is there already stays. Symbolic links come last, so that nothing is written through
 * one. Throws `unsafe_path` where a directory on the way is a link, `not_found` when the store lacks a blob.
 */
export async function materialise(
  tree: Tree,
  root: string,
  path: string,
  shared: SharedInputs,
  options: MaterialiseOptions = {},
): Promise<Placed> {
  const what = options.what ?? "manifest";
  const placed = new Placed(tree, root, path);
  const directories = new Directories(root, what);
  directories.make(path);
  let index = 0;
  for await (const batch of tree.batches()) {
    const unknown: { readonly entry: FileEntry; readonly index: number }[] = [];
    for (const entry of batch) {
      const number = index++;
      directories.above(placed.at(entry));
      if (isLink(entry)) continue;
      // The directory was judged, and nothing of the job runs yet: what is at the last part may stay whatever it is.
      const stamp = linkTrusted(entry, shared, join(root, placed.at(entry)));
      if (stamp === null) unknown.push({ entry, index: number });
      else if (stamp !== "taken") placed.add(number, stamp);
      if (number % BATCH === BATCH - 1) await othersTurn(options);
    }
    await each(unknown, WIDTH, async ({ entry, index }) => {
      options.signal?.throwIfAborted();
      const file = await placeFile(entry, shared, join(root, placed.at(entry)));
      if (file === null) return;
      if (file.made) placed.addRebuilt(entry.blob);
      placed.add(index, file.stamp);
    });
    await othersTurn(options);
  }
  if (tree.summary.links > 0) await placeLinks(placed, options);
  return placed;
}

async function othersTurn({ signal }: MaterialiseOptions): Promise<void> {
  // A timer would wait for a millisecond.
  await new Promise((resolve) => setImmediate(resolve));
  signal?.throwIfAborted();
}

async function placeLinks(placed: Placed, options: MaterialiseOptions): Promise<void> {
  let index = 0;
  for await (const batch of placed.tree.batches()) {
    const links: (NewLink & { readonly index: number })[] = [];
    for (const entry of batch) {
      const number = index++;
      if (!isLink(entry)) continue;
      const path = join(placed.root, placed.at(entry));
      if (!isThere(path)) links.push({ target: entry.link, path, index: number });
    }
    options.signal?.throwIfAborted();
    await (options.makeLinks ?? makeLinks)(links);
    for (const { index } of links) placed.add(index, "link");
  }
}

function makeLinks(links: readonly NewLink[]): Promise<void> {
  for (const { target, path } of links) {
    try {
      Deno.symlinkSync(target, path);
    } catch (error) {
      return Promise.reject(placeError(error, `cannot make ${path}`));
    }
  }
  return Promise.resolve();
}
