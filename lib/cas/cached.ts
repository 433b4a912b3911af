/**
 * @module The `cached` provider: a directory on this machine over any other store.
 *
 * What is put is on the remote when the call returns. What is read comes from here when it is here, and is kept here
 * otherwise. The directory is laid out as piloop's caches are, so one can be taken over.
 */

import { type Clock, isError, type Log } from "../home/mod.ts";
import { type Eviction, Flush } from "./cached_flush.ts";
import { isThere, missingThere } from "./cached_asked.ts";
import { collectTiers, heldInTiers, sweepTiers, sweepTransfers } from "./cached_collect.ts";
import { listTiers, mendTiers, remoteIntegrity, usageOf } from "./cached_keep.ts";
import { Markers } from "./cached_markers.ts";
import { CachedReads } from "./cached_reads.ts";
import { type Remote, Tiers } from "./cached_tiers.ts";
import { Upkeeper } from "./cached_upkeep.ts";
import type {
  BlobBody,
  Cas,
  Cid,
  Collectable,
  Collected,
  Flushed,
  Held,
  Integrity,
  Leftovers,
  Limits,
  Ranged,
  Sized,
  Tiered,
  Upkeep,
  Usage,
} from "./contract.ts";
import { openDisk } from "./disk.ts";
import { checkCancelled } from "./limits.ts";
import type { AtHand, Frame, Framed } from "./serving.ts";

/** How a cache is kept. */
export interface CachedOptions {
  /** The local tier's directory; made when it is missing. */
  readonly path: string;
  readonly remote: Remote;
  /** The one spelling of where the remote's blobs are. */
  readonly where: string;
  /** Days without use after which a local copy is dropped. 0: none is kept. Default: never for its age. */
  readonly evictAfterDays?: number;
  /** Stored bytes above which local copies are dropped, those used longest ago first. Default: never for the size. */
  readonly localMaxBytes?: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Whether what crashes left is removed when it opens, too. Default: it is. */
  readonly sweeps?: boolean | undefined;
  /** Whether it looks after itself while it is open. Default: only `flush` does. */
  readonly upkeep?: boolean;
}

/** A store of two tiers. */
export type CachedStore =
  & Cas
  & Upkeep
  & Tiered
  & Collectable
  & Ranged
  & Sized
  & AtHand
  & Framed
  & AsyncDisposable;

/** How a put is done. */
interface Storing {
  readonly limits?: Limits;
  /** Whether it can be done once more, on the remote alone, when the blob cannot be kept here. */
  readonly repeatable?: boolean;
  /** Store the blob on the remote. Default: by a copy of what is here. */
  readonly send?: (cid: Cid) => Promise<Cid>;
}

class CachedCas implements CachedStore {
  readonly #tiers: Tiers;
  readonly #policy: Eviction;
  readonly #clock: Clock;
  readonly #reads: CachedReads;
  readonly #upkeeper: Upkeeper | null;
  /** Whether nothing is kept here. */
  readonly #passing: boolean;

  constructor(tiers: Tiers, options: CachedOptions) {
    const { evictAfterDays: days, localMaxBytes: maxBytes = null, clock, log } = options;
    this.#tiers = tiers;
    this.#policy = { afterMs: days === undefined ? null : days * 86_400_000, maxBytes };
    this.#passing = days === 0;
    this.#clock = clock;
    this.#reads = new CachedReads(tiers, {
      clock,
      passing: this.#passing,
      touches: days !== undefined || maxBytes !== null,
      fetched: (cid) => this.#grew(cid),
    });
    const run = () => this.flush({ evict: true });
    this.#upkeeper = options.upkeep ? new Upkeeper({ run, maxBytes, clock, log }) : null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#upkeeper?.[Symbol.asyncDispose]();
    await this.#tiers.local[Symbol.asyncDispose]();
    await this.#tiers.remote[Symbol.asyncDispose]?.();
  }

  has(cid: Cid): Promise<boolean> {
    return isThere(this.#tiers, cid);
  }

  /** A blob that only this machine holds counts as lacking: whoever puts it then shares it. */
  missing(cids: readonly Cid[]): Promise<Cid[]> {
    return missingThere(this.#tiers, cids);
  }

  async put(data: Uint8Array, limits: Limits = {}): Promise<Cid> {
    const { remote } = this.#tiers;
    // A put that is cancelled returns before its upload has ended, and then the bytes may change.
    const own = limits.signal === undefined ? data : data.slice();
    return await this.#store((store) => store.put(own, limits), {
      limits,
      repeatable: true,
      send: (cid) => remote.put(own, { expectedCid: cid }),
    });
  }

  async putStream(source: ReadableStream<Uint8Array>, limits: Limits = {}): Promise<Cid> {
    return await this.#store((store) => store.putStream(source, limits), { limits });
  }

  async putFile(path: string): Promise<Cid> {
    return await this.#store((store) => store.putFile(path), { repeatable: true });
  }

  /** Store a blob by `put` here, then on the remote. */
  async #store(put: (store: Cas) => Promise<Cid>, how: Storing): Promise<Cid> {
    if (this.#passing) return await this.#pass(put);
    let cid: Cid;
    try {
      cid = await put(this.#tiers.local);
    } catch (error) {
      if (!how.repeatable || !isError(error, "unavailable")) throw error;
      this.#tiers.log.event("cas.not_cached", { error });
      return await this.#pass(put);
    }
    const { send } = how;
    const upload = this.#tiers.upload(cid, send === undefined ? undefined : () => send(cid));
    await unlessCancelled(upload, how.limits ?? {});
    await this.#grew(cid);
    return cid;
  }

  async #pass(put: (store: Cas) => Promise<Cid>): Promise<Cid> {
    const cid = await put(this.#tiers.remote);
    await this.#tiers.mark(cid, { kept: true });
    return cid;
  }

  async #grew(cid: Cid): Promise<void> {
    if (this.#policy.maxBytes === null) return;
    this.#upkeeper?.grew(await this.#tiers.local.sizeOf(cid) ?? 0);
  }

  get(cid: Cid): Promise<Uint8Array | null> {
    return this.#reads.get(cid);
  }

  getStream(cid: Cid, limits: Limits = {}): Promise<BlobBody | null> {
    return this.#reads.getStream(cid, limits);
  }

  getFile(cid: Cid, path: string): Promise<number | null> {
    return this.#reads.getFile(cid, path);
  }

  getRange(
    cid: Cid,
    from: number,
    to?: number,
    options: Pick<Limits, "transient"> = {},
  ): Promise<BlobBody | null> {
    return this.#reads.getRange(cid, from, to, options);
  }

  atHand(cid: Cid): Uint8Array<ArrayBuffer> | null {
    return this.#reads.atHand(cid);
  }

  sizeAtHand(cid: Cid): number | null {
    return this.#tiers.local.sizeAtHand(cid);
  }

  /** Null also for a local copy that is damaged: `getStream` mends it. */
  getFrame(cid: Cid): Promise<Frame | null> {
    return this.#reads.getFrame(cid);
  }

  /** With `check`, a blob that only this machine holds counts as absent: whoever puts it then shares it. */
  sizeOf(cid: Cid, options: { readonly check?: boolean } = {}): Promise<number | null> {
    return this.#reads.sizeOf(cid, options);
  }

  list(): AsyncIterable<Cid> {
    return listTiers(this.#tiers);
  }

  held(): AsyncIterable<Held> {
    return heldInTiers(this.#tiers);
  }

  get keepEveryMs(): number {
    return Math.max(this.#tiers.local.keepEveryMs, this.#tiers.remote.keepEveryMs ?? 0);
  }

  async unsafeBecause(): Promise<string | null> {
    return await this.#tiers.remote.unsafeBecause?.() ?? null;
  }

  collect(cids: readonly Cid[], graceMs: number): Promise<Collected[]> {
    return collectTiers(this.#tiers, cids, graceMs);
  }

  sweep(options: { readonly dryRun?: boolean } = {}): Promise<Leftovers> {
    return sweepTiers(this.#tiers, options);
  }

  usage(): Promise<Usage> {
    return usageOf(this.#tiers);
  }

  /** A local copy is read and hashed. The remote is asked about a blob that is not here, which is not fetched. */
  async integrity(cid: Cid): Promise<Integrity> {
    const found = await this.#tiers.local.integrity(cid);
    return found === "missing" ? await remoteIntegrity(this.#tiers, cid) : found;
  }

  mend(cid: Cid): Promise<"ok" | "mended" | "lost"> {
    return mendTiers(this.#tiers, cid);
  }

  async flush(options: { readonly evict?: boolean } = {}): Promise<Flushed> {
    const flush = new Flush(this.#tiers, this.#policy, this.#clock.now());
    return await flush.run(options.evict ?? false);
  }
}

/** The result of `work`, unless the signal of `limits` fires first; `work` goes on then. */
async function unlessCancelled(work: Promise<void>, limits: Limits): Promise<void> {
  const { signal } = limits;
  if (signal === undefined) return await work;
  const stopped = Promise.withResolvers<void>();
  const stop = () => stopped.resolve();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    await Promise.race([work, stopped.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
    work.catch(() => {});
  }
  checkCancelled(limits);
}

/**
 * Open the cache at `options.path`. Throws `config` when it is the cache of another remote, and `unavailable` when it
 * cannot be written. It owns the remote: disposing it disposes that.
 */
export async function openCached(options: CachedOptions): Promise<CachedStore> {
  const { path, where, remote, log } = options;
  try {
    const markers = await Markers.open(path, where);
    const { sweeps = true } = options;
    const local = await openDisk({ path, cache: true, sweeps });
    if (sweeps) await sweepTransfers(path, {});
    return new CachedCas(new Tiers(local, remote, markers, log), options);
  } catch (error) {
    await remote[Symbol.asyncDispose]?.();
    throw error;
  }
}
