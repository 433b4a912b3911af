/** @module What of a cache and its remote nobody needs. */

import { SubletError } from "../home/mod.ts";
import type { Tiers } from "./cached_tiers.ts";
import { objectName } from "./cid.ts";
import { isCollectable } from "./gc.ts";
import type { Cid, Collectable, Collected, Held, Leftovers } from "./contract.ts";
import { STALE_MS } from "./disk_directory.ts";
import { sum, sweep } from "./disk_root.ts";

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

/** Every blob of both tiers, with its bytes in both. */
export async function* heldInTiers(tiers: Tiers): AsyncGenerator<Held, void, undefined> {
  const remote = collectable(tiers);
  const local = new Map<string, Held>();
  for await (const held of tiers.local.held()) local.set(objectName(held.cid), held);
  for await (const held of remote.held()) {
    const name = objectName(held.cid);
    const here = local.get(name);
    local.delete(name);
    const keptAt = Math.max(held.keptAt ?? held.storedAt, tiers.local.keptAt(held.cid) ?? 0);
    yield { ...held, bytes: held.bytes + (here?.bytes ?? 0), keptAt };
  }
  for (const held of local.values()) {
    yield { ...held, keptAt: tiers.local.keptAt(held.cid) ?? held.storedAt };
  }
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

/** Remove, or only count, what a crash of piloop left of transfers between the tiers, of which the local one is at `path`. */
export function sweepTransfers(
  path: string,
  { dryRun = false }: { readonly dryRun?: boolean },
): Promise<Leftovers> {
  const isTemporary = (name: string) => name.startsWith(".cached-");
  return sweep(path, STALE_MS, { isTemporary, dryRun });
}

/** Remove, or only count, what crashes left in both tiers. */
export async function sweepTiers(
  tiers: Tiers,
  options: { readonly dryRun?: boolean },
): Promise<Leftovers> {
  return sum(
    await sweepTransfers(tiers.markers.root, options),
    await tiers.local.sweep(options),
    await tiers.remote.sweep?.(options) ?? { count: 0, bytes: 0 },
  );
}
