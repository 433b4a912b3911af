/**
 * @module Whether a cache holds blobs. What a marker says is enough as long as the remote keeps from its collections
 * what it last said that it has; after that it is asked again, or whoever was told so might refer to what goes.
 */

import { isOutage, type Tiers } from "./cached_tiers.ts";
import type { Cid } from "./contract.ts";
import { each } from "./each.ts";
import { KEEP_EVERY_MS } from "./gc_keep.ts";

/** What a marker says: the remote keeps the blob now, may have dropped it since it was asked, or is not known to have it. */
type Said = "kept" | "maybe" | "unknown";

async function said({ markers, remote }: Tiers, cid: Cid): Promise<Said> {
  const at = await markers.keptAt(cid);
  if (at === null) return "unknown";
  const age = Date.now() - at;
  return age >= 0 && age < (remote.keepEveryMs ?? KEEP_EVERY_MS) ? "kept" : "maybe";
}

/** Whether the blob is here or on the remote. */
export async function isThere(tiers: Tiers, cid: Cid): Promise<boolean> {
  const { local, remote, markers } = tiers;
  if (await local.has(cid)) return true;
  const marker = await said(tiers, cid);
  if (marker === "kept") return true;
  try {
    if (await remote.has(cid)) {
      await tiers.mark(cid, { kept: true });
      return true;
    }
  } catch (error) {
    // While the remote is away its markers are all that there is to go by.
    if (marker === "unknown" || !isOutage(error)) throw error;
    return true;
  }
  if (marker === "maybe") await markers.drop(cid);
  return false;
}

/** Those of `cids` that the remote lacks. */
export async function missingThere(tiers: Tiers, cids: readonly Cid[]): Promise<Cid[]> {
  const asked: Cid[] = [];
  const marked = new Set<Cid>();
  await each(new Set(cids), 16, async (cid) => {
    const marker = await said(tiers, cid);
    if (marker !== "kept") asked.push(cid);
    if (marker === "maybe") marked.add(cid);
  });
  if (asked.length === 0) return [];
  let lacking: Set<Cid>;
  try {
    lacking = new Set(await tiers.remote.missing(asked));
  } catch (error) {
    if (!isOutage(error) || marked.size < asked.length) throw error;
    return [];
  }
  await each(asked, 16, async (cid) => {
    if (!lacking.has(cid)) await tiers.mark(cid, { kept: true });
    else if (marked.has(cid)) await tiers.markers.drop(cid);
  });
  return cids.filter((cid) => lacking.has(cid));
}
