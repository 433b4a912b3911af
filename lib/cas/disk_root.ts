/** @module The root of a disk store: its directories, and what a crash left in them. */

import { SubletError } from "../home/mod.ts";
import type { Leftovers } from "./contract.ts";
import { each } from "./each.ts";
import { fileError } from "./files.ts";
import { syncDirectory } from "./sync_dir.ts";

/**
 * Make the directories of the store at `root`, durably. `config` when it is the cache of another store, unless `cache`
 * says that it may be.
 */
export async function prepareRoot(root: string, cache = false): Promise<void> {
  if (!cache) await refuseCache(root);
  try {
    await Deno.mkdir(`${root}/blake3`, { recursive: true, mode: 0o755 });
    await Deno.mkdir(`${root}/tmp`, { recursive: true, mode: 0o755 });
    await syncDirectory(root);
    await syncParent(root);
  } catch (error) {
    throw fileError(error, `cannot make the store ${root}`, "unavailable");
  }
}

/** Make the name of `root` durable. A process that may use the store alone leaves that to the system. */
async function syncParent(root: string): Promise<void> {
  try {
    await syncDirectory(`${root}/..`);
  } catch (error) {
    if (!(error instanceof SubletError && error.cause instanceof Deno.errors.NotCapable)) {
      throw error;
    }
  }
}

async function refuseCache(root: string): Promise<void> {
  let remote: string;
  try {
    remote = (await Deno.readTextFile(`${root}/remote.url`)).trim();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw fileError(error, `cannot open the store ${root}`, "unavailable");
  }
  throw new SubletError(
    "config",
    `[plugins.cas] path = ${
      JSON.stringify(root)
    }: this is a cache of ${remote}, and what it dropped is only there. ` +
      'Use provider = "cached" with that remote, or another path',
  );
}

/** What is swept, and how. */
export interface SweepOptions {
  /** Tells temporary files by their names. Default: all are. */
  readonly isTemporary?: (name: string) => boolean;
  /** Only count them. */
  readonly dryRun?: boolean;
}

/** Remove the temporary files in `directory` that nobody has written to for `ageMs` milliseconds: a crash left them. */
export async function sweep(
  directory: string,
  ageMs: number,
  { isTemporary = () => true, dryRun = false }: SweepOptions = {},
): Promise<Leftovers> {
  let count = 0;
  let bytes = 0;
  try {
    const names: string[] = [];
    for await (const entry of Deno.readDir(directory)) {
      if (entry.isFile && isTemporary(entry.name)) names.push(entry.name);
    }
    await each(names, 16, async (name) => {
      const path = `${directory}/${name}`;
      // Another process may sweep as well, or finish its put.
      const info = await Deno.lstat(path).catch(() => null);
      if (info?.mtime === undefined || info.mtime === null) return;
      if (Date.now() - info.mtime.getTime() < ageMs) return;
      const gone = dryRun || await Deno.remove(path).then(() => true, (error) => {
        if (error instanceof Deno.errors.NotFound) return false;
        throw error;
      });
      if (!gone) return;
      count++;
      bytes += info.size;
    });
  } catch (error) {
    throw fileError(error, `cannot sweep ${directory}`, "unavailable");
  }
  return { count, bytes };
}

/** Both together. */
export function sum(...found: readonly Leftovers[]): Leftovers {
  return {
    count: found.reduce((total, { count }) => total + count, 0),
    bytes: found.reduce((total, { bytes }) => total + bytes, 0),
  };
}
