/** @module Finding the repository of a checkout that we made. */

import { SubletError } from "../home/mod.ts";
import type { LeftCheckout } from "./standing.ts";
import { originOf, ownCheckout } from "./own.ts";
import type { Place } from "./place.ts";
import { somethingAt } from "./remove_tree.ts";
import { adminDir } from "./worktree.ts";

/** The checkout of `base` at `path`. Throws `not_found` when `checkout` made none there. */
export async function leftCheckout(
  place: Place,
  path: string,
  base: string,
): Promise<LeftCheckout> {
  const own = ownCheckout(place, path);
  const origin = await originOf(own);
  if (origin !== null) {
    return { path, base, own, origin, job: { gitDir: own.gitDir, commonDir: own.gitDir } };
  }
  const admin = adminDir(place, path);
  if (await somethingAt(`${admin}/gitdir`)) {
    return {
      path,
      base,
      own: null,
      origin: null,
      job: { gitDir: admin, commonDir: place.commonDir },
    };
  }
  throw new SubletError("not_found", `there is no checkout at ${path} of ${place.commonDir}`);
}
