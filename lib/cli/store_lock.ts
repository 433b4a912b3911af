/** @module Which `cas serve` uses a home's store: a collection that nobody may disturb waits for none, and begins without any. */

import { type HomePaths, SubletError } from "../home/mod.ts";
import { ProcessLock } from "../store/mod.ts";

/** So many may serve one home. */
const SERVERS = 16;

/** Say that this process serves the store, until it is disposed. Throws `conflict` while a collection must be alone. */
export function serveStore(paths: HomePaths): Disposable {
  const mine = firstFree(paths);
  // Each side takes its own lock first and looks at the other's then, so that one of them sees the other.
  const collecting = ProcessLock.tryTake(collectionPath(paths));
  if (collecting !== null) {
    collecting[Symbol.dispose]();
    return mine;
  }
  mine[Symbol.dispose]();
  throw new SubletError(
    "conflict",
    "`sublet cas gc` removes blobs of this store, and must be alone: start again when it has ended",
  );
}

/** Keep `cas serve` from starting until it is disposed. Throws `conflict` when one runs, or another collection. */
export function quietStore(paths: HomePaths): Disposable {
  const mine = ProcessLock.tryTake(collectionPath(paths));
  if (mine === null) throw new SubletError("conflict", "another `sublet cas gc` runs in this home");
  for (let at = 0; at < SERVERS; at++) {
    const free = ProcessLock.tryTake(serverPath(paths, at));
    if (free === null) {
      mine[Symbol.dispose]();
      throw new SubletError("conflict", "a `sublet cas serve` of this home runs: stop it first");
    }
    free[Symbol.dispose]();
  }
  return mine;
}

function firstFree(paths: HomePaths): Disposable {
  for (let at = 0; at < SERVERS; at++) {
    const lock = ProcessLock.tryTake(serverPath(paths, at));
    if (lock !== null) return lock;
  }
  throw new SubletError("conflict", `${SERVERS} \`sublet cas serve\` run in ${paths.root} already`);
}

const serverPath = (paths: HomePaths, at: number) => `${paths.pidFile}.cas${at}.lock`;

const collectionPath = (paths: HomePaths) => `${paths.pidFile}.gc.lock`;
