/** @module Manifests that are read more than once: most jobs of a campaign link the same trees. */

import { SubletError } from "../home/mod.ts";
import { createHasher } from "./blake3.ts";
import { cidOfDigest, sameBlob } from "./cid.ts";
import type { Cas, Cid } from "./contract.ts";
import { readPieces } from "./files.ts";
import { type Entry, isLink } from "./manifest.ts";
import { decodeBatches, readBatches } from "./manifest_stream.ts";
import type { SharedInputs } from "./shared_inputs.ts";
import { streamFrom } from "./streams.ts";

/** Of so many larger ones it is remembered that they are whole. */
const REMEMBERED = 1_000;

/** What is known of a manifest once it was read to its end. */
export interface Summary {
  /** Entries. */
  readonly count: number;
  /** How many of them are symbolic links. */
  readonly links: number;
  /** Paths of the first and the last; of one without entries, empty. */
  readonly first: string;
  readonly last: string;
}

/** A manifest that was found to be whole and right before anybody sees an entry of it. */
export interface Tree {
  readonly cid: Cid;
  readonly summary: Summary;
  /**
   * Its entries in order, many at once, as often as wanted. Throws `integrity` when what it is read from was damaged
   * since: then the entries that were given may be none of its.
   */
  batches(): AsyncIterable<readonly Entry[]> | Iterable<readonly Entry[]>;
}

/** How {@linkcode Manifests} are kept. */
export interface ManifestsOptions {
  /** Where large ones are files. Default: they are read from the store each time. */
  readonly shared?: SharedInputs;
  /** One of more entries is large, and not kept in memory. Default 50,000. */
  readonly large?: number;
  /** Those in memory have at most so many entries together, beside what somebody still uses. Default 200,000: 50 MB. */
  readonly most?: number;
}

/** The manifests of a store. */
export class Manifests {
  readonly #cas: Cas;
  readonly #shared: SharedInputs | null;
  readonly #largeFrom: number;
  readonly #most: number;
  readonly #kept = new Map<Cid, Tree>();
  readonly #large = new Map<Cid, Summary>();
  #entries = 0;

  constructor(cas: Cas, { shared, large = 50_000, most = 200_000 }: ManifestsOptions = {}) {
    this.#cas = cas;
    this.#shared = shared ?? null;
    this.#largeFrom = large;
    this.#most = most;
  }

  /** The manifest at `cid`. Throws as `readManifest`. */
  async open(cid: Cid): Promise<Tree> {
    const known = this.#large.get(cid);
    if (known !== undefined) return this.#largeTree(cid, known);
    const kept = this.#kept.get(cid) ?? await this.#read(cid);
    if (kept !== null) return this.#keep(kept);
    const summary = await summaryOf(this.#largeTree(cid, NOTHING).batches());
    this.#large.set(cid, summary);
    for (const oldest of this.#large.keys()) {
      if (this.#large.size <= REMEMBERED) break;
      this.#large.delete(oldest);
    }
    return this.#largeTree(cid, summary);
  }

  /** A manifest in memory, or null for one that is too large. */
  async #read(cid: Cid): Promise<Tree | null> {
    const batches: Entry[][] = [];
    let count = 0;
    for await (const batch of readBatches(this.#cas, cid)) {
      count += batch.length;
      if (count > this.#largeFrom) return null;
      batches.push(batch);
    }
    return { cid, summary: await summaryOf(batches), batches: () => batches };
  }

  #largeTree(cid: Cid, summary: Summary): Tree {
    if (this.#shared !== null) return new FileTree(cid, summary, this.#shared);
    return { cid, summary, batches: () => readBatches(this.#cas, cid) };
  }

  /** Keep `tree` as the last that was used, and as many before it as there is room for. */
  #keep(tree: Tree): Tree {
    this.#drop(tree.cid);
    this.#kept.set(tree.cid, tree);
    this.#entries += tree.summary.count;
    for (const oldest of this.#kept.keys()) {
      if (this.#entries <= this.#most) break;
      this.#drop(oldest);
    }
    return tree;
  }

  #drop(cid: Cid): void {
    const kept = this.#kept.get(cid);
    if (kept === undefined) return;
    this.#kept.delete(cid);
    this.#entries -= kept.summary.count;
  }
}

const NOTHING: Summary = { count: 0, links: 0, first: "", last: "" };

async function summaryOf(batches: ReturnType<Tree["batches"]>): Promise<Summary> {
  let { count, links, first, last } = NOTHING;
  for await (const batch of batches) {
    if (count === 0) first = batch[0]?.path ?? "";
    last = batch.at(-1)?.path ?? last;
    count += batch.length;
    for (const entry of batch) if (isLink(entry)) links++;
  }
  return { count, links, first, last };
}

/** A manifest in a file, which stays as long as this object lives. */
class FileTree implements Tree {
  readonly #shared: SharedInputs;

  constructor(readonly cid: Cid, readonly summary: Summary, shared: SharedInputs) {
    this.#shared = shared;
  }

  async *batches(): AsyncGenerator<readonly Entry[], void, undefined> {
    const path = await this.#shared.manifest(this.cid, this);
    const hasher = createHasher();
    const bytes = async function* () {
      for await (const piece of readPieces(path)) {
        hasher.update(piece);
        yield piece;
      }
    };
    yield* decodeBatches(streamFrom(bytes()), this.cid);
    if (sameBlob(cidOfDigest(hasher.digest()), this.cid)) return;
    throw new SubletError("integrity", `${path} was changed while it was read. Try again`);
  }
}
