/** @module Makes the names in a directory durable. */

import { fileError } from "./files.ts";

/** Wait until the names that `path` holds now are on the disk. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows has no such call, and needs none.
  if (Deno.build.os === "windows") return;
  try {
    using directory = Deno.openSync(path);
    await directory.sync();
  } catch (error) {
    throw fileError(error, `cannot make ${path} durable`, "unavailable");
  }
}

/** So many syncs of one directory run at once: a file system makes one of those that overlap. */
const AT_ONCE = 4;

/** A directory whose many callers share syncs: those who come while enough of them run wait for the next, together. */
export class SharedSync {
  #running = 0;
  #next: PromiseWithResolvers<void> | null = null;

  constructor(readonly path: string) {}

  /** Wait until the names that the directory holds now are on the disk. */
  sync(): Promise<void> {
    if (this.#running < AT_ONCE) return this.#start();
    // Those that run may have started before the caller's change.
    this.#next ??= Promise.withResolvers();
    return this.#next.promise;
  }

  #start(): Promise<void> {
    this.#running++;
    return syncDirectory(this.path).finally(() => {
      this.#running--;
      const next = this.#next;
      if (next === null) return;
      this.#next = null;
      this.#start().then(next.resolve, next.reject);
    });
  }
}
