/** @module Manifests that were read, kept for the next job: most jobs of a campaign link the same trees. */

import type { Cas, Cid } from "./contract.ts";
import { type Manifest, readManifest } from "./manifest.ts";

/** The last manifests of a store, by address. */
export class Manifests {
  readonly #cas: Cas;
  readonly #most: number;
  readonly #kept = new Map<Cid, Manifest>();
  #entries = 0;

  /** Those that are kept have at most `most` entries together. */
  constructor(cas: Cas, most = 200_000) {
    this.#cas = cas;
    this.#most = most;
  }

  /** The manifest at `cid`. Throws as {@linkcode readManifest}. */
  async read(cid: Cid): Promise<Manifest> {
    const kept = this.#kept.get(cid);
    const manifest = kept ?? await readManifest(this.#cas, cid);
    this.#drop(cid);
    this.#kept.set(cid, manifest);
    this.#entries += manifest.entries.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#entries <= this.#most) break;
      this.#drop(oldest);
    }
    return manifest;
  }

  #drop(cid: Cid): void {
    const kept = this.#kept.get(cid);
    if (kept === undefined) return;
    this.#kept.delete(cid);
    this.#entries -= kept.entries.length;
  }
}
