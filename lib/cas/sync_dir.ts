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

/** A directory whose many callers share syncs: those who come while one runs wait for the next, together. */
export class SharedSync {
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  constructor(readonly path: string) {}

  /** Wait until the names that the directory holds now are on the disk. */
  sync(): Promise<void> {
    if (this.#running === null) return this.#start();
    // The one that runs may have started before the caller's change.
    this.#next ??= this.#running.then(() => this.#start(), () => this.#start());
    return this.#next;
  }

  #start(): Promise<void> {
    this.#next = null;
    const running = syncDirectory(this.path).finally(() => {
      if (this.#running === running) this.#running = null;
    });
    this.#running = running;
    return running;
  }
}
