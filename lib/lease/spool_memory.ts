/** @module A spool in memory, for tests and the simulator: what it keeps outlives the worker, as a disk would. */

import { decodeSpooled, encodeSpooled, type Spool, type SpoolEntry } from "./spool.ts";

/** Entries by worker and lease, as bytes: what is kept went through its JSON. */
export class MemorySpool implements Spool {
  readonly #kept = new Map<string, Map<number, Uint8Array>>();
  /** Entries that were set aside, as `worker/lease`. */
  readonly aside: string[] = [];

  load(worker: string): Promise<SpoolEntry[]> {
    const found = [...this.#of(worker)].map(([lease, bytes]) => decodeSpooled(lease, bytes));
    return Promise.resolve(found.sort((a, b) => a.lease - b.lease));
  }

  keep(worker: string, entry: SpoolEntry): Promise<void> {
    this.#of(worker).set(entry.lease, encodeSpooled(entry));
    return Promise.resolve();
  }

  drop(worker: string, lease: number): Promise<void> {
    this.#of(worker).delete(lease);
    return Promise.resolve();
  }

  setAside(worker: string, lease: number): Promise<void> {
    if (this.#of(worker).delete(lease)) this.aside.push(`${worker}/${lease}`);
    return Promise.resolve();
  }

  #of(worker: string): Map<number, Uint8Array> {
    let found = this.#kept.get(worker);
    if (found === undefined) this.#kept.set(worker, found = new Map());
    return found;
  }
}
