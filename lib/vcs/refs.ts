/** @module Writing refs: in one process for all of them, past locks that a dead process left. */

import type { Clock } from "../home/mod.ts";
import { type Git, GitFailure } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";

/** Nothing of ours holds the lock of a ref for longer, in milliseconds. */
const STALE_MS = 60_000;

/** Remove the lock that `failure` names when it is one of our refs' and nobody can hold it any more. */
async function breakStaleLock(failure: unknown, place: Place, clock: Clock): Promise<boolean> {
  if (!(failure instanceof GitFailure)) return false;
  const lock = /Unable to create '([^'\n]+\.lock)'/.exec(failure.stderr)?.[1];
  if (lock === undefined || !lock.startsWith(`${place.commonDir}/refs/sublet/`)) return false;
  try {
    const { mtime } = await Deno.lstat(lock);
    if (mtime === null || clock.now() - mtime.getTime() < STALE_MS) return false;
    await Deno.remove(lock);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return true;
}

/** Set `refs`, name to revision, all or none. Names and revisions are judged already. Git refuses what is not there. */
export async function updateRefs(
  git: Git,
  place: Place,
  clock: Clock,
  refs: ReadonlyMap<string, string>,
): Promise<void> {
  if (refs.size === 0) return;
  const stdin = [...refs].map(([name, revision]) => `update ${name} ${revision}\n`).join("");
  const update = () => onPlace(git, place, { args: ["update-ref", "--stdin"], stdin });
  try {
    await update();
  } catch (error) {
    if (!await breakStaleLock(error, place, clock)) throw error;
    await update();
  }
}

/** The refs beneath `prefix` with their commits: in the order of their names, where numbers go by their value. */
export async function listRefs(
  git: Git,
  place: Place,
  prefix: string,
): Promise<{ readonly name: string; readonly revision: string }[]> {
  const { stdout } = await onPlace(git, place, {
    args: ["for-each-ref", "--format=%(objecttype) %(objectname) %(refname)", prefix],
  });
  const refs: { name: string; revision: string }[] = [];
  for (const line of new TextDecoder().decode(stdout).split("\n")) {
    const [type, revision = "", name = ""] = line.split(" ");
    if (type === "commit") refs.push({ name, revision });
  }
  const order = new Intl.Collator("en", { numeric: true });
  return refs.sort((one, two) => order.compare(one.name, two.name));
}
