/** @module A blob on its way into a store, of which nobody knows yet how large it is. */

import { createHasher } from "./blake3.ts";
import { cidOfDigest } from "./cid.ts";
import type { Cid, Limits } from "./contract.ts";
import { type FrameTarget, FrameWriter } from "./frame_writer.ts";
import { checkAddress } from "./limits.ts";
import { concat } from "./streams.ts";

/** Blobs up to this size are stored from memory. */
export const SMALL = 64 * 1024;

/** Where the frame of a large blob waits until it is whole. Disposed, it is gone, unless it was published. */
export interface IntakeTarget extends FrameTarget, AsyncDisposable {}

/** What an intake needs of its store. */
export interface IntakeStore<T extends IntakeTarget> {
  /** A new place for a frame. */
  begin(): T | Promise<T>;
  /** Store a small blob. */
  put(data: Uint8Array, limits: Limits): Promise<Cid>;
  /** Whether the store holds the blob undamaged. */
  intact(cid: Cid): Promise<boolean>;
  /** Make what is in `target` the object of `cid`, a blob of `length` bytes, durably. */
  publish(cid: Cid, target: T, length: number): Promise<void>;
}

/** Gathers the first bytes, then writes a frame, or only hashes when the expected blob is there already. */
export class Intake<T extends IntakeTarget> implements AsyncDisposable {
  readonly #store: IntakeStore<T>;
  readonly #limits: Limits;
  #parts: Uint8Array[] = [];
  #held = 0;
  #target: T | null = null;
  #sink: { write(bytes: Uint8Array): Promise<void> | void; finish(): Promise<Uint8Array> } | null =
    null;
  #close = () => {};

  constructor(store: IntakeStore<T>, limits: Limits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** Take the next bytes, which must not change until it returns or resolves. */
  write(bytes: Uint8Array): Promise<void> | void {
    this.#held += bytes.length;
    if (this.#sink !== null) return this.#sink.write(bytes);
    this.#parts.push(bytes.slice());
    if (this.#held > SMALL) return this.#grow();
  }

  /** Store the blob, if it is the one that is expected. */
  async finish(): Promise<Cid> {
    if (this.#sink === null) {
      return await this.#store.put(concat(this.#parts, this.#held), this.#limits);
    }
    const cid = cidOfDigest(await this.#sink.finish());
    checkAddress(cid, this.#limits);
    if (this.#target !== null) await this.#store.publish(cid, this.#target, this.#held);
    return cid;
  }

  async #grow(): Promise<void> {
    const { expectedCid, expectedLength } = this.#limits;
    if (expectedCid !== undefined && await this.#store.intact(expectedCid)) {
      const hasher = createHasher();
      this.#sink = {
        write: (bytes) => hasher.update(bytes),
        finish: () => Promise.resolve(hasher.digest()),
      };
    } else {
      this.#target = await this.#store.begin();
      const writer = new FrameWriter(this.#target, expectedLength ?? null);
      this.#sink = writer;
      this.#close = () => writer.close();
    }
    for (const part of this.#parts.splice(0)) await this.#sink.write(part);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close();
    await this.#target?.[Symbol.asyncDispose]();
  }
}
