/**
 * @module The `cached` provider: a directory on this machine over any other store.
 *
 * What is put is on the remote when the call returns. What is read comes from here when it is here, and is kept here
 * otherwise. The directory is laid out as piloop's caches are, so one can be taken over.
 */

import { type Clock, isError, type Log, SubletError } from "../home/mod.ts";
import { type Eviction, Flush } from "./cached_flush.ts";
import { Markers } from "./cached_markers.ts";
import { rangeIn, type Readable, sizeIn } from "./cached_read.ts";
import { type Remote, Tiers } from "./cached_tiers.ts";
import { Upkeeper } from "./cached_upkeep.ts";
import type {
  BlobBody,
  Cas,
  Cid,
  Flushed,
  Limits,
  Ranged,
  Sized,
  Tiered,
  Upkeep,
  Usage,
} from "./contract.ts";
import { openDisk } from "./disk.ts";
import { sweep } from "./disk_root.ts";
import { each } from "./each.ts";
import { checkCancelled, checkLength } from "./limits.ts";

/** Local copies up to this size are checked before any byte is delivered, larger ones while they are. */
const CHECKED_FIRST = 256 * 1024 * 1024;

/** Temporary files that nobody has written to for so many milliseconds are of a crash. */
const STALE_MS = 60 * 60 * 1000;

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
  /** Whether it looks after itself while it is open. Default: only `flush` does. */
  readonly upkeep?: boolean;
}

/** A store of two tiers. */
export type CachedStore = Cas & Upkeep & Tiered & Ranged & Sized & AsyncDisposable;

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
  readonly #upkeeper: Upkeeper | null;
  /** Whether nothing is kept here. */
  readonly #passing: boolean;

  constructor(tiers: Tiers, options: CachedOptions) {
    const { evictAfterDays: days, localMaxBytes: maxBytes = null, clock, log } = options;
    this.#tiers = tiers;
    this.#policy = { afterMs: days === undefined ? null : days * 86_400_000, maxBytes };
    this.#passing = days === 0;
    this.#clock = clock;
    const run = () => this.flush({ evict: true });
    this.#upkeeper = options.upkeep ? new Upkeeper(run, maxBytes, log) : null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#upkeeper?.[Symbol.asyncDispose]();
    await this.#tiers.local[Symbol.asyncDispose]();
    await this.#tiers.remote[Symbol.asyncDispose]?.();
  }

  async has(cid: Cid): Promise<boolean> {
    const { local, remote, markers } = this.#tiers;
    if (await local.has(cid) || await markers.find(cid) !== null) return true;
    if (!await remote.has(cid)) return false;
    await this.#tiers.mark(cid);
    return true;
  }

  /** A blob that only this machine holds counts as lacking: whoever puts it then shares it. */
  async missing(cids: readonly Cid[]): Promise<Cid[]> {
    const { remote, markers } = this.#tiers;
    const unknown: Cid[] = [];
    await each(new Set(cids), 16, async (cid) => {
      if (await markers.find(cid) === null) unknown.push(cid);
    });
    if (unknown.length === 0) return [];
    const lacking = new Set(await remote.missing(unknown));
    await each(unknown, 16, async (cid) => {
      if (!lacking.has(cid)) await this.#tiers.mark(cid);
    });
    return cids.filter((cid) => lacking.has(cid));
  }

  async put(data: Uint8Array, limits: Limits = {}): Promise<Cid> {
    const { remote } = this.#tiers;
    return await this.#store((store) => store.put(data, limits), {
      limits,
      repeatable: true,
      send: (cid) => remote.put(data, { expectedCid: cid }),
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
    await this.#tiers.mark(cid);
    return cid;
  }

  async #grew(cid: Cid): Promise<void> {
    if (this.#policy.maxBytes === null) return;
    this.#upkeeper?.grew(await this.#tiers.local.sizeOf(cid) ?? 0);
  }

  async get(cid: Cid): Promise<Uint8Array | null> {
    return await this.#read(cid, (store) => store.get(cid));
  }

  async getStream(cid: Cid, limits: Limits = {}): Promise<BlobBody | null> {
    checkCancelled(limits);
    return await this.#read(cid, (store) => {
      return store === this.#tiers.local
        ? this.#localStream(cid, limits)
        : store.getStream(cid, limits);
    }, limits);
  }

  async getFile(cid: Cid, path: string): Promise<number | null> {
    return await this.#read(cid, (store) => store.getFile(cid, path));
  }

  async getRange(
    cid: Cid,
    from: number,
    to?: number,
    options: Pick<Limits, "transient"> = {},
  ): Promise<BlobBody | null> {
    const body = await this.#read(cid, (store) => rangeIn(store, cid, from, to, options));
    return body === null ? null : this.#tiers.use.holdBody(cid, body);
  }

  /**
   * What `from` gets of the blob: from here, else from here after a fetch, else straight from the remote. A damaged
   * local copy is mended by the fetch.
   */
  async #read<T>(
    cid: Cid,
    from: (store: Readable) => Promise<T | null>,
    limits: Limits = {},
  ): Promise<T | null> {
    using _use = this.#tiers.use.hold(cid);
    const { local, remote } = this.#tiers;
    let failure: SubletError | null = null;
    try {
      const found = await from(local);
      if (found !== null) {
        await this.#touch(cid);
        return found;
      }
    } catch (error) {
      if (!isError(error, "integrity", "unavailable")) throw error;
      failure = error;
    }
    await this.#checkSize(cid, limits);
    if (!this.#passing && failure?.code !== "unavailable") {
      const fetched = await this.#tiers.fetch(cid);
      const found = fetched === "here" ? await from(local) : null;
      if (found !== null) {
        await this.#grew(cid);
        return found;
      }
    }
    const found = await this.#tiers.fromRemote(cid, () => from(remote));
    if (found === null && failure !== null) throw failure;
    return found;
  }

  /** Throws when the remote says that the blob breaks `limits`: then it need not be fetched to find out. */
  async #checkSize(cid: Cid, limits: Limits): Promise<void> {
    if (limits.maxBytes === undefined && limits.expectedLength === undefined) return;
    const size = await this.#tiers.remote.sizeOf?.(cid) ?? null;
    if (size !== null) checkLength(size, limits, cid);
  }

  async #localStream(cid: Cid, limits: Limits): Promise<BlobBody | null> {
    const { local, use } = this.#tiers;
    const body = await local.getStream(cid, limits);
    if (body === null || body.bytes !== undefined) return body;
    if (body.length === null || body.length > CHECKED_FIRST) {
      return use.holdBody(cid, body, (error) => {
        // These bytes are lost to their reader; the next one gets whole ones.
        if (isError(error, "integrity")) this.#mendAside(cid);
      });
    }
    await body.stream.cancel();
    // Throws when it is damaged.
    const checked = await local.getRange(cid, 0, undefined, limits);
    if (checked === null) return null;
    checkCancelled(limits);
    return use.holdBody(cid, checked);
  }

  #mendAside(cid: Cid): void {
    this.#tiers.fetch(cid).catch((error) => {
      this.#tiers.log.event("cas.not_mended", { cid, error });
    });
  }

  async #touch(cid: Cid): Promise<void> {
    if (this.#policy.afterMs === null && this.#policy.maxBytes === null) return;
    const now = this.#clock.now();
    if (!this.#tiers.use.touch(cid, now)) return;
    // Reading goes on without it, on a disk that is read-only, say.
    await this.#tiers.markers.touch(cid, now).catch((error) => {
      this.#tiers.log.event("cas.not_touched", { cid, error });
    });
  }

  /** With `check`, a blob that only this machine holds counts as absent: whoever puts it then shares it. */
  async sizeOf(cid: Cid, options: { readonly check?: boolean } = {}): Promise<number | null> {
    using _use = this.#tiers.use.hold(cid);
    const { local, remote, markers } = this.#tiers;
    if (options.check && await markers.find(cid) === null) {
      const size = await sizeIn(remote, cid, options);
      if (size !== null) await this.#tiers.mark(cid);
      return size;
    }
    return await local.sizeOf(cid, options) ?? await sizeIn(remote, cid, options);
  }

  async *list(): AsyncGenerator<Cid, void, undefined> {
    const seen = new Set<Cid>();
    for await (const cid of this.#tiers.local.list()) {
      seen.add(cid);
      yield cid;
    }
    for await (const cid of this.#tiers.markers.list()) if (!seen.has(cid)) yield cid;
  }

  async usage(): Promise<Usage> {
    const local = await this.#tiers.local.usage();
    let marked = 0;
    let elsewhere = 0;
    for await (const cid of this.#tiers.markers.list()) {
      marked++;
      if (!await this.#tiers.local.has(cid)) elsewhere++;
    }
    return {
      blobs: local.blobs + elsewhere,
      bytes: local.bytes,
      tiers: { local: local.blobs, remote: marked, where: this.#tiers.markers.where },
    };
  }

  /** A local copy is read and hashed. The remote is asked about a blob that is not here, which is not fetched. */
  async integrity(cid: Cid): Promise<"ok" | "missing" | "corrupt"> {
    const found = await this.#tiers.local.integrity(cid);
    return found === "missing" ? await this.#remoteIntegrity(cid) : found;
  }

  async #remoteIntegrity(cid: Cid): Promise<"ok" | "missing" | "corrupt"> {
    const { remote } = this.#tiers;
    if (remote.integrity !== undefined) return await remote.integrity(cid);
    if (!await remote.has(cid)) return "missing";
    if (remote.sizeOf === undefined) return "ok";
    return await remote.sizeOf(cid, { check: true }) === null ? "corrupt" : "ok";
  }

  async mend(cid: Cid): Promise<"ok" | "mended" | "lost"> {
    const { local, markers } = this.#tiers;
    const here = await local.integrity(cid);
    const there = await this.#remoteIntegrity(cid);
    if (there === "ok" && here !== "corrupt") {
      await this.#tiers.mark(cid);
      return "ok";
    }
    if (there !== "ok") await markers.drop(cid);
    if (here === "ok") {
      await this.#tiers.upload(cid);
      return "mended";
    }
    try {
      return await this.#tiers.fetch(cid) === "here" ? "mended" : "lost";
    } catch (error) {
      if (isError(error, "integrity")) return "lost";
      throw error;
    }
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
  const markers = await Markers.open(path, where);
  const local = await openDisk({ path, cache: true });
  // What a crash of piloop left of a transfer between the tiers.
  await sweep(path, STALE_MS, (name) => name.startsWith(".cached-"));
  return new CachedCas(new Tiers(local, remote, markers, log), options);
}
