/** @module Whether a checkout is no longer as it was made. */

import { isContentFault, makeJail } from "./jail.ts";
import { onPlace } from "./place.ts";
import { beyond, type CaptureParts, commitsOf, type LeftCheckout, standingOf } from "./standing.ts";
import { differenceOf, ignoredPaths, isIgnored } from "./work_files.ts";

/** Whether `left` is no longer as it was made. One of which that cannot be told is not. */
export async function checkoutChanged(
  parts: CaptureParts,
  left: LeftCheckout,
  ignore: readonly string[],
): Promise<boolean> {
  try {
    return await differs(parts, left, ignore);
  } catch (error) {
    if (isContentFault(error)) return true;
    throw error;
  }
}

async function differs(
  parts: CaptureParts,
  left: LeftCheckout,
  ignore: readonly string[],
): Promise<boolean> {
  const { git, place, scratch } = parts;
  const { head, tips, borrowed, workTree, excludesOf } = await standingOf(parts, left);
  if (head.revision !== left.base || workTree === null) return true;
  const index = left.own === null ? null : `${left.own.root}/index`;
  const jail = await makeJail(place, `${scratch}/changed`, {
    borrowed,
    index,
    excludesOf,
  });
  const others = tips.filter(({ revision }) => revision !== left.base);
  const known = await commitsOf(git, jail, others.map(({ revision }) => revision));
  const commits = [...known.values()].map((revision) => ({ name: "", revision }));
  if ((await beyond(git, jail, commits, [left.base])).length > 0) return true;
  if (left.origin?.base !== left.base) {
    await onPlace(git, jail, { args: ["read-tree", "-i", "-m", left.base] });
  }
  // What was written to again and holds the same is no change.
  await onPlace(git, jail, {
    workTree,
    cwd: workTree,
    args: ["update-index", "-q", "--refresh"],
    answers: [0, 1],
  });
  const ignored = ignoredPaths(ignore);
  const { removed, changed, nested } = await differenceOf(git, jail, workTree);
  return [...removed, ...changed, ...nested].some((path) => !isIgnored(path, ignored));
}
