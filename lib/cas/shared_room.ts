/** @module The room that shared copies take: what of them may go when a disk is full, and what a crash left. */

import { join } from "node:path";
import { readStamp } from "./stamp.ts";

/** A temporary file that is older was left by a process that died. */
const STALE_MS = 60 * 60 * 1000;
/** So many candidates are gathered before those that need not go are passed over. */
const MANY = 10_000;

interface Candidate {
  readonly name: string;
  readonly size: number;
  readonly used: number;
}

/** What the owner of a directory of shared copies knows of them, by name. */
export interface Owner {
  readonly isBusy: (name: string) => boolean;
  /** Called before one goes. */
  readonly removing: (name: string) => void;
}

/** Remove the temporary files in `directory` that a process that died left there. */
export async function removeStale(directory: string): Promise<void> {
  for await (const { name } of Deno.readDir(directory)) {
    if (!/^\..*\.(part|tmp)$/.test(name)) continue;
    const path = join(directory, name);
    const age = Date.now() - ((await readStamp(path))?.mtime ?? Date.now());
    if (age > STALE_MS) await Deno.remove(path).catch(ignoreAbsence);
  }
}

/**
 * Free at least `bytes` by removing copies in `directory` that nothing else links to, those not used for the longest
 * first; the bytes that were freed.
 */
export async function removeUnused(
  directory: string,
  bytes: number,
  { isBusy, removing }: Owner,
): Promise<number> {
  let unused: Candidate[] = [];
  let room = MANY;
  for await (const { name, isFile } of Deno.readDir(directory)) {
    if (!isFile || name.startsWith(".") || isBusy(name)) continue;
    const info = await Deno.lstat(join(directory, name)).catch(ignoreAbsence);
    if (info === undefined || (info.nlink ?? 1) > 1) continue;
    unused.push({ name, size: info.size, used: (info.ctime ?? info.mtime)?.getTime() ?? 0 });
    if (unused.length < room) continue;
    unused = oldest(unused, bytes);
    room = unused.length + MANY;
  }
  let freed = 0;
  for (const { name, size } of oldest(unused, bytes)) {
    if (isBusy(name)) continue;
    removing(name);
    await Deno.remove(join(directory, name)).catch(ignoreAbsence);
    freed += size;
  }
  return freed;
}

/** As many of the oldest as have `bytes` together. */
function oldest(candidates: Candidate[], bytes: number): Candidate[] {
  candidates.sort((a, b) => a.used - b.used);
  let total = 0;
  const end = candidates.findIndex(({ size }) => (total += size) >= bytes);
  return end < 0 ? candidates : candidates.slice(0, end + 1);
}

/** That a file is gone is fine. */
function ignoreAbsence(error: unknown): undefined {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
  return undefined;
}
