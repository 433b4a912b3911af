/** @module What is live in a store: what somebody names, and what that names in turn. */

import { isError, SubletError } from "../home/mod.ts";
import { digestOf, drislCid, isCid, isDrisl, objectName } from "./cid.ts";
import { isEmpty } from "./empty.ts";
import type { Cas, Cid } from "./contract.ts";
import { linksIn, mayBeJson } from "./gc_links.ts";
import { isLink } from "./manifest.ts";
import { readBatches } from "./manifest_stream.ts";

/** The address of a blob, in any text. */
const CIDS = /baf[ky]r4i[a-z2-7]{52}/g;
/** Its length in characters. */
const CID_LENGTH = 59;

/** How a manifest's bytes start, as Latin-1. */
const MANIFEST = "\u00a1gentries";

/** Called with each address that is in use. */
export type Finder = (found: (cid: Cid) => Promise<void> | void) => Promise<void>;

/**
 * Gathers what is live among the blobs that a store holds. What an address names is followed when it is a manifest, or
 * a document in JSON: its text may name blobs wherever it likes.
 */
export class LiveBlobs {
  readonly #cas: Cas;
  readonly #held: ReadonlySet<string>;
  readonly #live = new Set<string>();
  readonly #followed = new Set<string>();
  /** Named, but not there. */
  readonly lost = new Set<Cid>();
  /** There, and damaged, so that nobody knows what it names. */
  readonly damaged = new Set<Cid>();

  /** `held`: the names of all blobs that the store holds. Others are not remembered. */
  constructor(cas: Cas, held: ReadonlySet<string>) {
    this.#cas = cas;
    this.#held = held;
  }

  /** Whether the blob with this name is live. */
  has(name: string): boolean {
    return this.#live.has(name);
  }

  get size(): number {
    return this.#live.size;
  }

  /** The blob is in use, and so is what it names. Throws what the store throws, other than that it is damaged. */
  async add(root: Cid): Promise<void> {
    const waiting = [root];
    for (let cid = waiting.pop(); cid !== undefined; cid = waiting.pop()) {
      const name = objectName(cid);
      if (!this.#held.has(name)) {
        if (isEmpty(cid)) continue;
        if (cid === root || isDrisl(cid)) this.lost.add(cid);
        continue;
      }
      this.#live.add(name);
      // One address may be that of a file that is also a manifest.
      const key = isDrisl(cid) ? `manifest ${name}` : name;
      if (this.#followed.has(key)) continue;
      this.#followed.add(key);
      for (const named of await this.#named(cid)) {
        if (named.leaf) this.#leaf(named.cid);
        else waiting.push(named.cid);
      }
    }
  }

  #leaf(cid: Cid): void {
    const name = objectName(cid);
    if (this.#held.has(name)) this.#live.add(name);
  }

  async #named(cid: Cid): Promise<{ cid: Cid; leaf: boolean }[]> {
    try {
      if (isDrisl(cid)) return await this.#links(cid);
      const found = await this.#texts(cid);
      // A manifest may also be named as the file that it is.
      if (found === "manifest") return await this.#links(cid);
      return found.map((cid) => ({ cid, leaf: false }));
    } catch (error) {
      if (!isError(error, "integrity")) throw error;
      this.damaged.add(cid);
      return [];
    }
  }

  /** What the value at `cid` names and is to be followed; files are noted at once, since a tree has very many. */
  async #links(cid: Cid): Promise<{ cid: Cid; leaf: boolean }[]> {
    const followed: { cid: Cid; leaf: boolean }[] = [];
    try {
      for await (const batch of readBatches(this.#cas, drislCid(digestOf(cid)))) {
        for (const entry of batch) {
          if (isLink(entry)) continue;
          if (isDrisl(entry.blob)) followed.push({ cid: entry.blob, leaf: false });
          else this.#leaf(entry.blob);
        }
      }
      return followed;
    } catch (error) {
      if (!isError(error, "integrity", "unsafe_path", "not_found")) throw error;
    }
    // Another value, or a tree that nobody could use. What it names is in use all the same.
    const bytes = await this.#cas.get(cid);
    if (bytes === null) throw changed(cid);
    return linksIn(bytes);
  }

  /** Addresses in the blob's text, if that is JSON. */
  async #texts(cid: Cid): Promise<Cid[] | "manifest"> {
    const body = await this.#cas.getStream(cid, { transient: true });
    if (body === null) throw changed(cid);
    const found = new Set<Cid>();
    const decoder = new TextDecoder("latin1");
    let tail = "";
    let started = false;
    // Leaving the loop cancels the stream.
    for await (const piece of body.stream) {
      const text = tail + decoder.decode(piece, { stream: true });
      if (!started) {
        if (text.startsWith(MANIFEST)) return "manifest";
        const start = text.trimStart();
        if (start !== "" && !mayBeJson(start)) break;
        started = start !== "";
      }
      for (const [named] of text.matchAll(CIDS)) {
        if (isCid(named) && this.#held.has(objectName(named))) found.add(named);
      }
      tail = text.slice(-CID_LENGTH + 1);
    }
    return [...found];
  }
}

function changed(cid: Cid): SubletError {
  return new SubletError(
    "conflict",
    `blob ${cid}, which is in use, went away during the collection: something else removes blobs. Nothing more was removed`,
  );
}
