/** @module Removing what a job left: also read-only directories, never through a link, and never in the way for good. */

import type { Ids } from "../home/mod.ts";

/** Whether anything, a broken link too, is at `path`. */
export async function somethingAt(path: string): Promise<boolean> {
  try {
    await Deno.lstat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return false;
    }
    throw error;
  }
}

/** Let us into every directory at and below `path` that is ours. Links are not followed. */
export async function unlockDirectories(path: string): Promise<void> {
  const open = [path];
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    // One that is not ours, or that has just gone, shows when what was meant with it is tried again.
    const mode = await Deno.lstat(directory).then((info) => info.mode ?? 0, () => 0);
    if ((mode & 0o700) !== 0o700) {
      await Deno.chmod(directory, (mode & 0o777) | 0o700).catch(() => {});
    }
    try {
      for await (const entry of Deno.readDir(directory)) {
        if (entry.isDirectory) open.push(`${directory}/${entry.name}`);
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    }
  }
}

async function tryRemove(path: string): Promise<unknown> {
  try {
    await Deno.remove(path, { recursive: true });
    return null;
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? null : error;
  }
}

/**
 * Remove what is at `path`. What cannot be removed (files of another user) is set aside beside it under a name of its
 * own, so that the path is free; that name is returned, and null when everything is gone.
 */
export async function removeTree(path: string, ids: Ids): Promise<string | null> {
  let failure = await tryRemove(path);
  if (failure === null) return null;
  const { isDirectory } = await Deno.lstat(path);
  if (isDirectory) await unlockDirectories(path);
  failure = await tryRemove(path);
  if (failure === null) return null;
  const aside = `${path}.unremovable-${ids.uuid().slice(0, 8)}`;
  try {
    await Deno.rename(path, aside);
  } catch {
    throw failure;
  }
  return aside;
}
