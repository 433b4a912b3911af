/** @module Recent transfers by what they hold: many workers ask for the same step, often at the same moment. */

import { createHash } from "node:crypto";
import type { Cas } from "../cas/mod.ts";
import type { Sent } from "./contract.ts";

/** How many transfers are remembered. */
const REMEMBERED = 512;

/** Transfers of this process, newest last. */
export class SentCache {
  readonly #cas: Cas;
  readonly #sent = new Map<string, Promise<Sent | null>>();

  constructor(cas: Cas) {
    this.#cas = cas;
  }

  /** What `make` made of `revisions` of `repo` beyond `have`, unless the store lost it since. */
  async of(
    repo: number,
    revisions: readonly string[],
    have: readonly string[],
    make: () => Promise<Sent | null>,
  ): Promise<Sent | null> {
    const key = keyOf(repo, revisions, have);
    const before = this.#sent.get(key);
    if (before !== undefined) {
      const sent = await before;
      if (sent === null || await this.#cas.has(sent.blob)) return sent;
      if (this.#sent.get(key) === before) this.#sent.delete(key);
    }
    // Somebody else may have seen the loss first.
    const making = this.#sent.get(key) ?? make();
    this.#sent.delete(key);
    this.#sent.set(key, making);
    const [oldest] = this.#sent.keys();
    if (this.#sent.size > REMEMBERED && oldest !== undefined) this.#sent.delete(oldest);
    try {
      return await making;
    } catch (error) {
      if (this.#sent.get(key) === making) this.#sent.delete(key);
      throw error;
    }
  }
}

function keyOf(repo: number, revisions: readonly string[], have: readonly string[]): string {
  const text = `${repo} ${[...revisions].sort().join(" ")} | ${[...have].sort().join(" ")}`;
  return createHash("sha256").update(text).digest("base64");
}
