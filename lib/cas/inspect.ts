/** @module A check of what a store holds, and its repair from another copy. */

import { isError, messageOf, SubletError } from "../home/mod.ts";
import type { Cas, Cid, Integrity, Tiered, Upkeep } from "./contract.ts";
import { rewrite } from "./rewrite.ts";

/** What a check found of one blob that is not as it should be. */
export interface Fault {
  readonly cid: Cid;
  readonly state: Exclude<Integrity, "ok">;
  /** Whether it is whole now. */
  readonly mended: boolean;
  /** Why it is not, when a repair was tried. */
  readonly why: string | null;
}

/** What a check is of, and what it does about faults. */
export interface InspectOptions {
  /** The blobs to check. Default: all. */
  readonly cids?: Iterable<Cid>;
  /** Whether faults are repaired, from the store's other tier, then from `from`. Default: they are told. */
  readonly repair?: boolean;
  /** A store that may have whole copies. */
  readonly from?: Cas;
  /** Called for each blob that was checked. */
  readonly onChecked?: (cid: Cid) => void;
}

/** A store that can be checked. */
export type Inspectable = Cas & Upkeep & Partial<Tiered>;

/** Whether `store` can be checked from here. */
export function isInspectable(store: Cas & Partial<Upkeep>): store is Inspectable {
  return store.list !== undefined && store.integrity !== undefined && store.usage !== undefined;
}

/** Read and hash blobs of `store`; those that are damaged, altered or missing, one after another. */
export async function* inspect(
  store: Inspectable,
  options: InspectOptions = {},
): AsyncGenerator<Fault, void, undefined> {
  for await (const cid of options.cids ?? store.list()) {
    const state = await store.integrity(cid);
    options.onChecked?.(cid);
    if (state === "ok") continue;
    if (!options.repair) yield { cid, state, mended: false, why: null };
    else yield { cid, state, ...await repair(store, cid, state, options.from) };
  }
}

async function repair(
  store: Inspectable,
  cid: Cid,
  state: Fault["state"],
  from: Cas | undefined,
): Promise<{ mended: boolean; why: string | null }> {
  if (state === "altered" && store.mend === undefined) {
    await rewrite(store, cid);
    return { mended: true, why: null };
  }
  let why = "the store has no other tier";
  if (store.mend !== undefined) {
    try {
      if (await store.mend(cid) !== "lost") return { mended: true, why: null };
      why = "no tier has a whole copy";
    } catch (error) {
      if (!isError(error)) throw error;
      why = messageOf(error);
    }
  }
  if (from === undefined) return { mended: false, why };
  try {
    await copy(from, store, cid);
    return { mended: true, why: null };
  } catch (error) {
    if (!isError(error)) throw error;
    return { mended: false, why: messageOf(error) };
  }
}

async function copy(from: Cas, to: Cas, cid: Cid): Promise<void> {
  const body = await from.getStream(cid);
  if (body === null) throw new SubletError("not_found", "the other store has no copy either");
  const length = body.length === null ? {} : { expectedLength: body.length };
  await to.putStream(body.stream, { expectedCid: cid, ...length });
}
