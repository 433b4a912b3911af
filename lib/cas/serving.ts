/** @module What a store may offer beyond its contract, for whoever serves it over a network. */

import type { Cid } from "./contract.ts";

/** A store that has small blobs at hand, so that a request for one costs no turn of the event loop. */
export interface AtHand {
  /**
   * The checked bytes of a small blob, at once. Null: it is absent or large, and `getStream` tells which. Throws
   * `integrity` when it is damaged.
   */
  atHand(cid: Cid): Uint8Array<ArrayBuffer> | null;
  /** The length of the blob as its object announces it, at once. Null: `sizeOf` tells. */
  sizeAtHand(cid: Cid): number | null;
}

/** A blob on its way out as its stored frame. */
export interface Frame {
  /** Bytes of the frame. */
  readonly length: number;
  /** Bytes of the blob. */
  readonly blob: number;
  readonly stream: ReadableStream<Uint8Array>;
}

/** A store whose objects are zstd frames. */
export interface Framed {
  /**
   * The stored frame of the blob, whose content was checked lately or is now. Null when the blob is absent, or stored
   * uncompressed, so that its frame saves nothing. Throws `integrity` when it is damaged.
   */
  getFrame(cid: Cid): Promise<Frame | null>;
}

/** A store that takes a file of its own disk for an object, without copying it. */
export interface Adopting {
  /** An existing directory on the store's disk, for files that are adopted soon. */
  readonly staging: string;
  /** Where on the store's disk files wait that may take days to be adopted. It may be missing. */
  readonly waiting: string;
  /**
   * Make the file at `path` the object of `cid`, durably: one zstd frame that says its length, whose content of
   * `length` bytes the caller has hashed. On success the file is gone from `path`.
   */
  adopt(cid: Cid, path: string, length: number): Promise<void>;
}

/** What of this a store offers. */
export type Serving = Partial<AtHand & Framed & Adopting>;
