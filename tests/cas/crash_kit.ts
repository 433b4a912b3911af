/** @module Stores that are killed in the middle of puts, and the blobs that are put. */

import { type Cas, openDisk, openSqliteCas, type Upkeep } from "../../lib/cas/mod.ts";
import { openCache, tiersIn } from "./cached_kit.ts";
import { leftovers } from "./disk_kit.ts";
import { unfinished } from "./sqlite_kit.ts";

type Store = Cas & Upkeep & Partial<AsyncDisposable>;

/** A store, as the tests of crashes use it. */
export interface CrashStore {
  open(root: string): Promise<Store>;
  /** The stores that must hold what was acknowledged, opened so that they sweep what a crash left. */
  look(root: string): Promise<Store[]>;
  /** What a crash has left, and sweeping has not removed. */
  leftovers(root: string): Promise<string[]>;
}

const NOW = -1000;

/** The stores that outlive their process, by name. */
export const CRASH_STORES: Readonly<Record<string, CrashStore>> = {
  disk: {
    open: (root) => openDisk({ path: root }),
    look: async (root) => [await openDisk({ path: root, sweepAfterMs: NOW })],
    leftovers,
  },
  sqlite: {
    open: (root) => openSqliteCas({ path: `${root}/store.sqlite` }),
    look: async (root) => [
      await openSqliteCas({ path: `${root}/store.sqlite`, sweepAfterMs: NOW }),
    ],
    leftovers: (root) => unfinished(`${root}/store.sqlite`),
  },
  cached: {
    open: (root) => openCache(root),
    async look(root) {
      const { local, remote } = tiersIn(root);
      return [
        await openDisk({ path: local, cache: true, sweepAfterMs: NOW }),
        await openDisk({ path: remote, sweepAfterMs: NOW }),
      ];
    },
    leftovers: async (root) => [
      ...await leftovers(tiersIn(root).local),
      ...await leftovers(tiersIn(root).remote),
    ],
  },
};

/** The blob number `index`: mostly small, some large, some compressible. */
export function crashBlob(index: number): Uint8Array<ArrayBuffer> {
  const length = index % 50 === 49 ? 700_000 : index % 7 === 6 ? 70_000 : 100 + index % 3000;
  const mask = index % 2 === 0 ? 0xff : 0x07;
  const bytes = new Uint8Array(length);
  let state = index + 1;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    bytes[i] = (state >>> 24) & mask;
  }
  bytes.set(new TextEncoder().encode(`blob ${index}\n`));
  return bytes;
}
