/** @module The two tiers of a cache, and how one blob gets from one to the other. */

import { isError, type Log, messageOf, SubletError } from "../home/mod.ts";
import { Live } from "./cached_live.ts";
import type { Markers } from "./cached_markers.ts";
import { rangeIn } from "./cached_parts.ts";
import { objectName } from "./cid.ts";
import type { BlobBody, Cas, Cid, Collectable, Ranged, Sized, Tiered, Upkeep } from "./contract.ts";
import type { DiskStore } from "./disk.ts";
import { InUse } from "./in_use.ts";
import type { Spooled, TakesKnown } from "./spool.ts";
import { streamFrom, streamOfNext } from "./streams.ts";
import { damagedBlob } from "./verify.ts";

/** Smaller blobs are delivered once they are fetched. */
const LIVE_FROM = 1024 * 1024;

/** A remote tier: any store. */
export type Remote =
  & Cas
  & Partial<Ranged & Sized & Upkeep & Tiered & Collectable & TakesKnown & AsyncDisposable>;

/** Whether `error` says that a tier cannot be used now. */
export function isOutage(error: unknown): boolean {
  return isError(error, "unavailable", "unreachable", "busy");
}

/** Where a blob is after a fetch: here, nowhere, or on the remote alone, since it could not be kept here. */
export type Fetched = "here" | "nowhere" | "remote";

/** The tiers. */
export class Tiers {
  readonly use = new InUse();
  readonly #fetches = new Map<string, Promise<Fetched>>();
  readonly #uploads = new Map<string, Promise<void>>();

  constructor(
    readonly local: DiskStore,
    readonly remote: Remote,
    readonly markers: Markers,
    readonly log: Log,
  ) {}

  /** The remote holds the blob, and keeps it if it was `kept`: put there, or asked for. That this could not be written down costs a question later, and no more. */
  async mark(cid: Cid, { kept }: { readonly kept: boolean }): Promise<void> {
    await this.markers.add(cid, kept).catch((error) =>
      this.log.event("cas.unmarked", { cid, error })
    );
  }

  /** Bring the blob here from the remote. Those who ask for one blob at once share one fetch. */
  fetch(cid: Cid): Promise<Fetched> {
    return once(this.#fetches, cid, () => this.#fetch(cid, null));
  }

  /** {@linkcode Tiers.fetch}; a large blob is delivered meanwhile, to the one who asked first. */
  async fetchLive(cid: Cid): Promise<Fetched | BlobBody> {
    if (this.#fetches.has(objectName(cid))) return await this.fetch(cid);
    const live = new Live();
    const fetched = once(this.#fetches, cid, () => this.#fetch(cid, live));
    fetched.catch(() => live.open(null));
    const length = await live.opened;
    if (length === null || length < LIVE_FROM) return await fetched;
    return live.body(length, fetched, async (at) => {
      const store = await fetched === "here" ? this.local : this.remote;
      const body = await rangeIn(store, cid, at, undefined, {});
      if (body !== null) return body.stream;
      throw new SubletError("unavailable", `blob ${cid} went away while it was read`);
    });
  }

  async #fetch(cid: Cid, live: Live | null): Promise<Fetched> {
    using _use = this.use.hold(cid);
    const body = await this.fromRemote(cid, () => this.remote.getStream(cid, { transient: true }));
    live?.open(body?.length ?? null);
    if (body === null) return "nowhere";
    let failure: { error: unknown } | null = null;
    const reader = body.stream.getReader();
    const next = async () => {
      try {
        const { value } = await reader.read();
        if (value === undefined) live?.complete();
        else live?.push(value);
        return value ?? null;
      } catch (error) {
        failure = { error };
        throw error;
      }
    };
    const close = () => void reader.cancel().catch(() => {});
    try {
      const length = body.length === null ? {} : { expectedLength: body.length };
      const limits = { expectedCid: cid, ...length };
      await this.local.putStream(streamOfNext(next, { close }), limits);
    } catch (error) {
      const source = failure as { error: unknown } | null;
      if (source !== null) throw await this.#distrust(cid, source.error);
      if (!isOutage(error)) throw error;
      this.log.event("cas.not_cached", { cid, error });
      return "remote";
    }
    await this.mark(cid, { kept: false });
    return "here";
  }

  /** What `read` gets of the blob from the remote. A marker that proves wrong is dropped. */
  async fromRemote<T>(cid: Cid, read: () => Promise<T | null>): Promise<T | null> {
    let found: T | null;
    try {
      found = await read();
    } catch (error) {
      throw await this.#distrust(cid, error);
    }
    if (found === null) await this.markers.drop(cid);
    return found;
  }

  /** `error`, which reading from the remote ended with. If it says that the blob is damaged there, that is no copy. */
  async #distrust(cid: Cid, error: unknown): Promise<unknown> {
    if (isError(error, "integrity")) await this.markers.drop(cid);
    return error;
  }

  /**
   * Bring the blob from here to the remote, by `send` or by a copy. It is kept here as well, and marked. A remote that
   * is known to hold it need not answer.
   */
  upload(cid: Cid, send: () => Promise<unknown> = () => this.#copy(cid)): Promise<void> {
    return once(this.#uploads, cid, async () => {
      using _use = this.use.hold(cid);
      try {
        await send();
      } catch (error) {
        if (!isOutage(error)) throw error;
        if (await this.markers.find(cid) !== null) return;
        throw new SubletError(
          (error as SubletError).code,
          `blob ${cid} is kept here, but its remote ${this.markers.where} did not take it: ${
            messageOf(error)
          }. Put it again, or flush the store when the remote answers`,
          { cause: error },
        );
      }
      await this.mark(cid, { kept: true });
    });
  }

  async #copy(cid: Cid): Promise<void> {
    if (this.remote.putKnown !== undefined) {
      await this.remote.putKnown(await this.#known(cid));
      return;
    }
    const body = await this.local.getStream(cid, { transient: true });
    if (body === null) throw wentAway(cid);
    const length = body.length === null ? {} : { expectedLength: body.length };
    try {
      await this.remote.putStream(body.stream, { expectedCid: cid, ...length });
    } finally {
      // A remote may have failed before it looked at it, and its file is open. One that was read needs nothing.
      if (!body.stream.locked) await body.stream.cancel().catch(() => {});
    }
  }

  /** The local copy, checked, to be sent from where it is. Throws `integrity` when it is damaged. */
  async #known(cid: Cid): Promise<Spooled> {
    const length = await this.local.sizeOf(cid, { check: true });
    if (length === null) {
      throw await this.local.has(cid)
        ? damagedBlob(cid, "it was to be uploaded, and is not what it should be")
        : wentAway(cid);
    }
    const part = async function* (local: DiskStore, from: number, to: number) {
      // Not transient: what sends it may still have a piece when it asks for the next.
      const body = await local.getRange(cid, from, to);
      if (body === null) throw wentAway(cid);
      yield* body.stream;
    };
    return {
      cid,
      length,
      bytes: null,
      open: (from = 0, to = length) => streamFrom(part(this.local, from, to)),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }
}

function wentAway(cid: Cid): SubletError {
  return new SubletError("unavailable", `blob ${cid} went away while it was uploaded`);
}

/** The result of `work` for the blob, or of the one that is under way for it. A failure is forgotten. */
function once<T>(running: Map<string, Promise<T>>, cid: Cid, work: () => Promise<T>): Promise<T> {
  const name = objectName(cid);
  const before = running.get(name);
  if (before !== undefined) return before;
  const started = work().finally(() => running.delete(name));
  running.set(name, started);
  return started;
}
