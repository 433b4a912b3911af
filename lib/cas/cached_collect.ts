/** @module What of a cache and its remote nobody needs. */

import { SubletError } from "../home/mod.ts";
import type { Tiers } from "./cached_tiers.ts";
import { objectName } from "./cid.ts";
import { isCollectable } from "./gc.ts";
import type { Cid, Collectable, Collected, Held } from "./contract.ts";

/** The remote, if blobs can be collected from here. Throws `config` otherwise. */
function collectable({ remote, markers }: Tiers): Collectable {
  if (!isCollectable(remote)) {
    throw new SubletError(
      "config",
      `what nobody needs cannot be collected from here, since the remote ${markers.where} is served: run ` +
        "`sublet cas gc` where its store is. Local copies go by evict_after_days and local_max_gb",
    );
  }
  return remote;
}

/** Every blob of both tiers. */
export async function* heldInTiers(tiers: Tiers): AsyncGenerator<Held, void, undefined> {
  const seen = new Set<string>();
  for await (const held of collectable(tiers).held()) {
    seen.add(objectName(held.cid));
    yield held;
  }
  for await (const held of tiers.local.held()) if (!seen.has(objectName(held.cid))) yield held;
}

/** Drop what is old in both tiers. What is young here stays in both. */
export async function collectTiers(
  tiers: Tiers,
  cids: readonly Cid[],
  graceMs: number,
): Promise<Collected[]> {
  const remote = collectable(tiers);
  const freed = new Map<Cid, number>();
  for (
    const { cid, bytes } of await tiers.local.collect(
      cids.filter((cid) => !tiers.use.has(cid)),
      graceMs,
    )
  ) {
    freed.set(cid, bytes);
  }
  const gone: Cid[] = [];
  for (const cid of cids) if (!await isHere(tiers, cid)) gone.push(cid);
  for (const { cid, bytes } of await remote.collect(gone, graceMs)) {
    freed.set(cid, (freed.get(cid) ?? 0) + bytes);
  }
  return [...freed].map(([cid, bytes]) => ({ cid, bytes }));
}

/** Whether the directory of the blob has anything in it: bytes, or a marker. */
async function isHere({ markers }: Tiers, cid: Cid): Promise<boolean> {
  const directory = `${markers.root}/blake3/${objectName(cid)}`;
  try {
    for await (const _ of Deno.readDir(directory)) return true;
    return false;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
