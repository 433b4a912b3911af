/**
 * @module The collection of blobs that nobody needs: mark what is live, then sweep what is older than a grace period.
 *
 * Nothing goes that is young: whoever puts a blob, or is told that it is there, has the grace period to refer to it.
 * Each blob's age is looked at again by the store as it goes, and what is live right before.
 */

import { SubletError } from "../home/mod.ts";
import { objectName } from "./cid.ts";
import type { Cas, Cid, Collectable, Held, Leftovers } from "./contract.ts";
import { type Finder, LiveBlobs } from "./gc_live.ts";

/** Blobs that go at once. */
const BATCH = 1024;

/** What is live is looked up again when it is older than so many milliseconds. */
const REMARK_MS = 30_000;

/** How a collection is done. */
export interface GarbageOptions {
  /** Calls with every address that is in use: at the start, and again while blobs go. */
  readonly find: Finder;
  /** Younger blobs stay, in milliseconds. */
  readonly graceMs: number;
  /** Only say what would go. */
  readonly dryRun?: boolean;
  /** Go on when a manifest or a document that is in use is damaged, so that what it names may go. */
  readonly despiteDamage?: boolean;
  /** Told of each step with the blobs that were looked at, or removed, so far. */
  readonly progress?: (step: "list" | "mark" | "sweep", count: number) => void;
  readonly signal?: AbortSignal;
  /** What is live is looked up again after so many milliseconds. Default: 30 s. */
  readonly remarkMs?: number;
}

/** What a collection found and did. */
export interface GarbageReport {
  /** All blobs, with their stored bytes. */
  readonly blobs: number;
  readonly bytes: number;
  /** Of these, those that are in use. */
  readonly live: number;
  /** Not in use, and too young to go. */
  readonly young: number;
  /** What went, or would go. */
  readonly removed: number;
  readonly freed: number;
  /** When the oldest blob was stored, Unix ms. Null: there is none. */
  readonly oldest: number | null;
  /** In use, and not there. */
  readonly lost: readonly Cid[];
  /** In use, and damaged, so that nobody knows what it names. */
  readonly damaged: readonly Cid[];
  /** What crashes left, and went, or would go. */
  readonly leftovers: Leftovers;
}

/** Whether blobs can be collected in `store` from here. */
export function isCollectable(store: Cas & Partial<Collectable>): store is Cas & Collectable {
  return store.held !== undefined && store.collect !== undefined && store.sweep !== undefined;
}

/** What a store holds, by name. */
interface Inventory {
  readonly names: Set<string>;
  /** Those that are old enough to go. */
  readonly old: Map<string, Held>;
  bytes: number;
  oldest: number | null;
}

/**
 * Remove the blobs of `store` that `options.find` does not name, nor what those name, and that are older than the grace
 * period. Throws `conflict`, before anything is removed, when something that is in use is damaged and may name others.
 */
export async function collectGarbage(
  store: Cas & Collectable,
  options: GarbageOptions,
): Promise<GarbageReport> {
  const inventory = await list(store, options);
  let live = await mark(store, inventory, options);
  let marked = performance.now();
  const doomed = [...inventory.old.values()].filter(({ cid }) => !live.has(objectName(cid)));
  let removed = 0;
  let freed = 0;
  for (let at = 0; at < doomed.length; at += BATCH) {
    if (options.dryRun) {
      removed = doomed.length;
      freed = doomed.reduce((sum, { bytes }) => sum + bytes, 0);
      break;
    }
    options.signal?.throwIfAborted();
    if (at === 0 || performance.now() - marked > (options.remarkMs ?? REMARK_MS)) {
      live = await mark(store, inventory, options);
      marked = performance.now();
    }
    const batch = doomed.slice(at, at + BATCH).map(({ cid }) => cid)
      .filter((cid) => !live.has(objectName(cid)));
    for (const { bytes } of await store.collect(batch, options.graceMs)) {
      removed++;
      freed += bytes;
    }
    options.progress?.("sweep", removed);
  }
  const leftovers = await store.sweep({ dryRun: options.dryRun ?? false });
  const { names, bytes, oldest } = inventory;
  return {
    blobs: names.size,
    bytes,
    live: live.size,
    young: names.size - live.size - removed,
    removed,
    freed,
    oldest,
    lost: [...live.lost],
    damaged: [...live.damaged],
    leftovers,
  };
}

async function list(store: Collectable, options: GarbageOptions): Promise<Inventory> {
  const inventory: Inventory = { names: new Set(), old: new Map(), bytes: 0, oldest: null };
  const before = Date.now() - options.graceMs;
  for await (const held of store.held()) {
    const name = objectName(held.cid);
    inventory.names.add(name);
    inventory.bytes += held.bytes;
    inventory.oldest = Math.min(inventory.oldest ?? Infinity, held.storedAt);
    if ((held.keptAt ?? held.storedAt) < before) inventory.old.set(name, held);
    if (inventory.names.size % 1000 === 0) options.signal?.throwIfAborted();
    options.progress?.("list", inventory.names.size);
  }
  return inventory;
}

async function mark(
  store: Cas,
  { names }: Inventory,
  options: GarbageOptions,
): Promise<LiveBlobs> {
  const live = new LiveBlobs(store, names);
  await options.find(async (cid) => {
    options.signal?.throwIfAborted();
    await live.add(cid);
    options.progress?.("mark", live.size);
  });
  if (live.damaged.size > 0 && !options.despiteDamage && !options.dryRun) {
    throw new SubletError(
      "conflict",
      `${
        [...live.damaged].slice(0, 5).join(", ")
      } is in use and damaged, so nobody knows which blobs it names. Mend it ` +
        "with `sublet cas check --repair`, or remove them all the same with --despite-damage",
    );
  }
  return live;
}
