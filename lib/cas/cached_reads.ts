/** @module How a cache reads: from here, else from here after a fetch, else straight from the remote. */

import { type Clock, isError, type SubletError } from "../home/mod.ts";
import { rangeIn, type Readable, sizeIn } from "./cached_parts.ts";
import type { Tiers } from "./cached_tiers.ts";
import type { BlobBody, Cid, Limits } from "./contract.ts";
import { checkCancelled, checkLength } from "./limits.ts";
import type { Frame } from "./serving.ts";

/** Local copies up to this size are checked before any byte is delivered, larger ones while they are. */
const CHECKED_FIRST = 256 * 1024 * 1024;

/** How reads are done. */
export interface ReadOptions {
  readonly clock: Clock;
  /** Whether nothing that is read is kept here. */
  readonly passing: boolean;
  /** Whether it is written down when a blob is used. */
  readonly touches: boolean;
  /** Called with the blob that was fetched. */
  readonly fetched: (cid: Cid) => Promise<void>;
}

/** A read: what it gets of the blob from a store, and what it can do with a blob that is under way. */
interface Read<T> {
  from(store: Readable): Promise<T | null>;
  readonly limits?: Limits;
  live?(body: BlobBody): T;
}

/** The reads of a cache. A local copy that proves damaged is mended by the fetch that follows. */
export class CachedReads {
  constructor(readonly tiers: Tiers, readonly options: ReadOptions) {}

  async get(cid: Cid): Promise<Uint8Array | null> {
    return await this.#read(cid, { from: (store) => store.get(cid) });
  }

  async getStream(cid: Cid, limits: Limits): Promise<BlobBody | null> {
    checkCancelled(limits);
    const { local, use } = this.tiers;
    return await this.#read(cid, {
      from: (store) =>
        store === local ? this.#localStream(cid, limits) : store.getStream(cid, limits),
      limits,
      live(body) {
        try {
          if (body.length !== null) checkLength(body.length, limits, cid);
        } catch (error) {
          void body.stream.cancel();
          throw error;
        }
        return use.holdBody(cid, body);
      },
    });
  }

  async getFile(cid: Cid, path: string): Promise<number | null> {
    return await this.#read(cid, { from: (store) => store.getFile(cid, path) });
  }

  async getRange(
    cid: Cid,
    from: number,
    to: number | undefined,
    options: Pick<Limits, "transient">,
  ): Promise<BlobBody | null> {
    const body = await this.#read(cid, {
      from: (store) => rangeIn(store, cid, from, to, options),
    });
    return body === null ? null : this.tiers.use.holdBody(cid, body);
  }

  atHand(cid: Cid): Uint8Array<ArrayBuffer> | null {
    const found = this.tiers.local.atHand(cid);
    if (found !== null) void this.#touch(cid);
    return found;
  }

  async getFrame(cid: Cid): Promise<Frame | null> {
    const { local, use } = this.tiers;
    using _use = use.hold(cid);
    try {
      const frame = await local.getFrame(cid);
      if (frame === null) return null;
      await this.#touch(cid);
      return { ...frame, stream: use.holdBody(cid, frame).stream };
    } catch (error) {
      // Whoever asks for the stream instead has it mended.
      if (isError(error, "integrity", "unavailable")) return null;
      throw error;
    }
  }

  async sizeOf(cid: Cid, options: { readonly check?: boolean }): Promise<number | null> {
    using _use = this.tiers.use.hold(cid);
    const { local, remote, markers } = this.tiers;
    if (options.check && await markers.find(cid) === null) {
      const size = await sizeIn(remote, cid, options);
      if (size !== null) await this.tiers.mark(cid, { kept: true });
      return size;
    }
    return await local.sizeOf(cid, options) ?? await sizeIn(remote, cid, options);
  }

  async #read<T>(cid: Cid, read: Read<T>): Promise<T | null> {
    using _use = this.tiers.use.hold(cid);
    const { local, remote } = this.tiers;
    let failure: SubletError | null = null;
    try {
      const found = await read.from(local);
      if (found !== null) {
        await this.#touch(cid);
        return found;
      }
    } catch (error) {
      if (!isError(error, "integrity", "unavailable")) throw error;
      failure = error;
    }
    await this.#checkSize(cid, read.limits ?? {});
    if (!this.options.passing && failure?.code !== "unavailable") {
      const found = await this.#fetch(cid, read);
      if (found !== null) return found;
    }
    const found = await this.tiers.fromRemote(cid, () => read.from(remote));
    if (found === null && failure !== null) throw failure;
    return found;
  }

  async #fetch<T>(cid: Cid, read: Read<T>): Promise<T | null> {
    const fetched = read.live === undefined
      ? await this.tiers.fetch(cid)
      : await this.tiers.fetchLive(cid);
    if (typeof fetched !== "string") return read.live?.(fetched) ?? null;
    if (fetched !== "here") return null;
    await this.options.fetched(cid);
    return await read.from(this.tiers.local);
  }

  /** Throws when the remote says that the blob breaks `limits`: then it need not be fetched to find out. */
  async #checkSize(cid: Cid, limits: Limits): Promise<void> {
    if (limits.maxBytes === undefined && limits.expectedLength === undefined) return;
    const size = await this.tiers.remote.sizeOf?.(cid) ?? null;
    if (size !== null) checkLength(size, limits, cid);
  }

  async #localStream(cid: Cid, limits: Limits): Promise<BlobBody | null> {
    const { local, use } = this.tiers;
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
    this.tiers.fetch(cid).catch((error) => {
      this.tiers.log.event("cas.not_mended", { cid, error });
    });
  }

  async #touch(cid: Cid): Promise<void> {
    if (!this.options.touches) return;
    const now = this.options.clock.now();
    if (!this.tiers.use.touch(cid, now)) return;
    // Reading goes on without it, on a disk that is read-only, say.
    await this.tiers.markers.touch(cid, now).catch((error) => {
      this.tiers.log.event("cas.not_touched", { cid, error });
    });
  }
}
