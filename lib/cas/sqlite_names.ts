/** @module What keeps blobs in a store in one SQLite file, and what drops them. */

import type { Tx } from "../store/mod.ts";
import { objectName } from "./cid.ts";
import type { Cid, Collected, Held, Leftovers, Usage } from "./contract.ts";
import { isEmpty } from "./empty.ts";
import { KeptLately } from "./gc_keep.ts";
import { InUse } from "./in_use.ts";
import { named } from "./sqlite_errors.ts";
import { type BlobRows, isDamage } from "./sqlite_rows.ts";

/** Names of one question. */
const BATCH = 1000;

/** Blobs of one transaction that drops them: others want to write, too. */
const COLLECTED = 32;

/** The blobs of a file, by name. */
export class SqliteNames {
  protected readonly use = new InUse();
  readonly #kept: KeptLately;
  readonly #sweepAfterMs: number;

  constructor(
    protected readonly rows: BlobRows,
    readonly keepEveryMs: number,
    sweepAfterMs: number,
  ) {
    this.#kept = new KeptLately(keepEveryMs);
    this.#sweepAfterMs = sweepAfterMs;
  }

  async has(cid: Cid): Promise<boolean> {
    if (isEmpty(cid)) return true;
    return await named(
      cid,
      async () => await this.rows.find(objectName(cid)) !== null && await this.keep([cid]) === 0,
    );
  }

  /** The blobs were found, and whoever asked may refer to them: none is collected for a while. How many are lost. */
  protected async keep(cids: readonly Cid[], lost?: Set<string>): Promise<number> {
    const due = cids.filter((cid) => !this.#kept.has(cid));
    if (due.length === 0) return 0;
    const now = Date.now();
    const gone = new Set(await this.rows.keepAll(due.map(objectName), now));
    for (const cid of due) if (!gone.has(objectName(cid))) this.#kept.add(cid, now);
    for (const name of gone) lost?.add(name);
    return gone.size;
  }

  async missing(cids: readonly Cid[]): Promise<Cid[]> {
    const lacking = new Set<string>();
    const names = [...new Set(cids.map(objectName))];
    for (let at = 0; at < names.length; at += BATCH) {
      for (const name of await this.rows.lacking(names.slice(at, at + BATCH))) lacking.add(name);
    }
    const found = cids.filter((cid) => !lacking.has(objectName(cid)));
    for (let at = 0; at < found.length; at += BATCH) {
      await this.keep(found.slice(at, at + BATCH), lacking);
    }
    return cids.filter((cid) => lacking.has(objectName(cid)) && !isEmpty(cid));
  }

  async *list(): AsyncGenerator<Cid, void, undefined> {
    for await (const { cid } of this.held()) yield cid;
  }

  held(): AsyncGenerator<Held, void, undefined> {
    return this.rows.held();
  }

  async release(cid: Cid): Promise<number> {
    const name = objectName(cid);
    return await named(cid, () =>
      this.rows.dropping(async (tx, frees) => {
        const row = await this.rows.findIn(tx, name);
        if (row === null || this.use.has(cid)) return 0;
        await this.rows.drop(tx, name, row.frame, frees);
        return frees ? row.stored : 0;
      }));
  }

  async collect(cids: readonly Cid[], graceMs: number): Promise<Collected[]> {
    const collected: Collected[] = [];
    for (let at = 0; at < cids.length; at += COLLECTED) {
      const batch = cids.slice(at, at + COLLECTED);
      try {
        collected.push(...await this.rows.db.write((tx) => this.#drop(tx, batch, graceMs, true)));
      } catch (error) {
        if (!isDamage(error)) throw error;
        // One at a time: a damaged page is that of few.
        for (const cid of batch) {
          const drop = (tx: Tx, frees: boolean) => this.#drop(tx, [cid], graceMs, frees);
          collected.push(...await this.rows.dropping(drop));
        }
      }
    }
    return collected;
  }

  async #drop(
    tx: Tx,
    cids: readonly Cid[],
    graceMs: number,
    frees: boolean,
  ): Promise<Collected[]> {
    const before = Date.now() - graceMs;
    const dropped: Collected[] = [];
    for (const cid of cids) {
      if (this.use.has(cid)) continue;
      const bytes = await this.rows.collect(tx, objectName(cid), before, frees);
      if (bytes !== null) dropped.push({ cid, bytes });
    }
    return dropped;
  }

  async sweep({ dryRun = false }: { readonly dryRun?: boolean } = {}): Promise<Leftovers> {
    let count = 0;
    let bytes = 0;
    for (const { frame, stored } of await this.rows.stale(Date.now() - this.#sweepAfterMs)) {
      if (!dryRun) await this.rows.abandon(frame);
      count++;
      bytes += stored;
    }
    return { count, bytes };
  }

  usage(): Promise<Usage> {
    return this.rows.usage();
  }
}
