/** @module The upkeep of a cache: it uploads what the remote lacks, and drops local copies by age and size. */

import { isError } from "../home/mod.ts";
import { isOutage, type Tiers } from "./cached_tiers.ts";
import type { Cid, Flushed, Held } from "./contract.ts";
import { each } from "./each.ts";

/** Which local copies a cache drops. */
export interface Eviction {
  /** Milliseconds after its last use from which on a copy is dropped. Null: never for its age. */
  readonly afterMs: number | null;
  /** Stored bytes above which the copies used longest ago are dropped. Null: never for the size. */
  readonly maxBytes: number | null;
}

/** Uploads at once. */
const WIDTH = 4;

/** Copies that are dropped after one question to the remote. */
const BATCH = 256;

interface Item extends Held {
  /** Unix ms. */
  readonly usedAt: number;
  readonly marked: boolean;
}

/** One flush. */
export class Flush {
  #uploaded = 0;
  #evicted = 0;
  #freed = 0;
  readonly #damaged = new Set<Cid>();

  constructor(
    readonly tiers: Tiers,
    readonly policy: Eviction,
    /** Unix ms. */
    readonly now: number,
  ) {}

  /**
   * Upload what the remote is not known to hold, then evict if `evict` says so. Nothing is dropped before the remote
   * said that it holds it. Throws `unavailable` or `unreachable` when it does not answer.
   */
  async run(evict: boolean): Promise<Flushed> {
    const items = await this.#scan();
    await each(items.filter((item) => !item.marked), WIDTH, (item) => this.#upload(item.cid));
    if (evict) await this.#evict(items);
    await this.tiers.remote.flush?.({ evict });
    return {
      uploaded: this.#uploaded,
      evicted: this.#evicted,
      freed: this.#freed,
      damaged: [...this.#damaged],
    };
  }

  /** The local copies, those used longest ago first. */
  async #scan(): Promise<Item[]> {
    const items: Item[] = [];
    for await (const held of this.tiers.local.held()) {
      const marked = await this.tiers.markers.find(held.cid);
      const usedAt = Math.max(held.storedAt, marked ?? 0);
      items.push({ ...held, usedAt, marked: marked !== null });
    }
    return items.sort((a, b) => a.usedAt - b.usedAt);
  }

  async #upload(cid: Cid): Promise<void> {
    try {
      await this.tiers.upload(cid);
      this.#uploaded++;
    } catch (error) {
      if (!isError(error, "integrity")) throw error;
      // The copy here is damaged. The remote may have a whole one all the same.
      const fetched = await this.tiers.fetch(cid).catch((error) => {
        if (isOutage(error)) throw error;
        return "nowhere";
      });
      if (fetched === "nowhere") this.#damaged.add(cid);
    }
  }

  async #evict(items: readonly Item[]): Promise<void> {
    let total = items.reduce((sum, { bytes }) => sum + bytes, 0);
    let batch: Item[] = [];
    for (const item of items) {
      if (!this.#isDue(item, total)) break;
      if (this.tiers.use.has(item.cid) || this.#damaged.has(item.cid)) continue;
      batch.push(item);
      total -= item.bytes;
      if (batch.length < BATCH) continue;
      await this.#drop(batch);
      batch = [];
    }
    await this.#drop(batch);
  }

  #isDue({ usedAt }: Item, total: number): boolean {
    const { afterMs, maxBytes } = this.policy;
    return afterMs !== null && this.now - usedAt >= afterMs ||
      maxBytes !== null && total > maxBytes;
  }

  /** Drop copies that the remote holds, and upload those that it has lost. */
  async #drop(items: readonly Item[]): Promise<void> {
    if (items.length === 0) return;
    const { local, markers, remote, use } = this.tiers;
    const lost = new Set(await remote.missing(items.map(({ cid }) => cid)));
    await each(items, WIDTH, async ({ cid, usedAt, marked }) => {
      if (lost.has(cid)) {
        await markers.drop(cid);
        await this.#upload(cid);
        if (await markers.find(cid) === null) return;
      } else if (marked && (await markers.find(cid) ?? 0) > usedAt) {
        // Somebody has used it since, maybe another process.
        return;
      }
      if (use.has(cid)) return;
      const freed = await local.release(cid);
      if (freed === 0) return;
      this.#freed += freed;
      this.#evicted++;
    });
  }
}
