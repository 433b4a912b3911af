/** @module What a cache says of what it holds, and how it is mended. */

import { isError } from "../home/mod.ts";
import { rewrite } from "./rewrite.ts";
import type { Tiers } from "./cached_tiers.ts";
import type { Cid, Integrity, Usage } from "./contract.ts";

/** Every blob that is here or that the remote is known to hold. */
export async function* listTiers({ local, markers }: Tiers): AsyncGenerator<Cid, void, undefined> {
  const seen = new Set<Cid>();
  for await (const cid of local.list()) {
    seen.add(cid);
    yield cid;
  }
  for await (const cid of markers.list()) if (!seen.has(cid)) yield cid;
}

/** How much is here, and how much the remote is known to hold. */
export async function usageOf({ local, markers }: Tiers): Promise<Usage> {
  const here = await local.usage();
  let marked = 0;
  let elsewhere = 0;
  for await (const cid of markers.list()) {
    marked++;
    if (!await local.has(cid)) elsewhere++;
  }
  return {
    blobs: here.blobs + elsewhere,
    bytes: here.bytes,
    tiers: { local: here.blobs, remote: marked, where: markers.where },
  };
}

/** What the remote says of the blob, which is not fetched for it. */
export async function remoteIntegrity({ remote }: Tiers, cid: Cid): Promise<Integrity> {
  if (remote.integrity !== undefined) return await remote.integrity(cid);
  if (!await remote.has(cid)) return "missing";
  if (remote.sizeOf === undefined) return "ok";
  return await remote.sizeOf(cid, { check: true }) === null ? "corrupt" : "ok";
}

/** Bring an undamaged copy of the blob to each tier that should have one. */
export async function mendTiers(tiers: Tiers, cid: Cid): Promise<"ok" | "mended" | "lost"> {
  let here = await tiers.local.integrity(cid);
  let there = await remoteIntegrity(tiers, cid);
  const altered = here === "altered" || there === "altered";
  if (here === "altered") {
    await rewrite(tiers.local, cid);
    here = "ok";
  }
  if (there === "altered") {
    if (here !== "ok") await tiers.fetch(cid);
    await tiers.upload(cid);
    here = there = "ok";
  }
  if (there === "ok" && here !== "corrupt") {
    await tiers.mark(cid, { kept: false });
    return altered ? "mended" : "ok";
  }
  if (there !== "ok") await tiers.markers.drop(cid);
  if (here === "ok") {
    await tiers.upload(cid);
    return "mended";
  }
  try {
    return await tiers.fetch(cid) === "here" ? "mended" : "lost";
  } catch (error) {
    if (isError(error, "integrity")) return "lost";
    throw error;
  }
}
