/** @module Caches for tests, and remotes that fail when they are told to. */

import {
  type Cas,
  type Cid,
  objectName,
  openCached,
  openDisk,
  type Remote,
} from "../../lib/cas/mod.ts";
import { type Clock, type Log, nullLog, SubletError, systemClock } from "../../lib/home/mod.ts";

/** Where the tiers of a test are. */
export const tiersIn = (root: string) => ({
  local: `${root}/local`,
  remote: `${root}/remote`,
});

/** Options of a cache besides its tiers. */
export interface CacheSettings {
  readonly evictAfterDays?: number;
  readonly localMaxBytes?: number;
  readonly clock?: Clock;
  readonly remote?: Remote;
  readonly log?: Log;
  readonly upkeep?: boolean;
}

/** Open the cache at `root/local`, by default over the disk store at `root/remote`. */
export async function openCache(root: string, { remote, ...settings }: CacheSettings = {}) {
  const tiers = tiersIn(root);
  return await openCached({
    clock: systemClock,
    log: nullLog,
    ...settings,
    path: tiers.local,
    remote: remote ?? await openDisk({ path: tiers.remote }),
    where: `file://${tiers.remote}`,
  });
}

/** `store`, which counts its calls, and fails with `unreachable` while `down` is set. */
export class Flaky {
  down = false;
  /** A method that fails, whatever else does. */
  failing = "";
  readonly calls: string[] = [];

  constructor(readonly store: Cas) {}

  /** How often a method was called. */
  count(name: string): number {
    return this.calls.filter((call) => call === name).length;
  }

  get cas(): Cas {
    const { store } = this;
    const call = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
      this.calls.push(name);
      // The answer takes a while, as over a network.
      await new Promise((resolve) => setTimeout(resolve, 2));
      if (this.down || this.failing === name) {
        throw new SubletError("unreachable", "the remote does not answer");
      }
      return await work();
    };
    return {
      has: (cid) => call("has", () => store.has(cid)),
      missing: (cids) => call("missing", () => store.missing(cids)),
      put: (data, limits) => call("put", () => store.put(data, limits)),
      get: (cid) => call("get", () => store.get(cid)),
      putStream: (source, limits) => call("putStream", () => store.putStream(source, limits)),
      getStream: (cid, limits) => call("getStream", () => store.getStream(cid, limits)),
      putFile: (path) => call("putFile", () => store.putFile(path)),
      getFile: (cid, path) => call("getFile", () => store.getFile(cid, path)),
    };
  }
}

/** Whether there is a marker for `cid` in the cache at `local`. */
export async function isMarked(local: string, cid: Cid): Promise<boolean> {
  return await Deno.stat(`${local}/blake3/${objectName(cid)}/remote`).then(() => true, () => false);
}
