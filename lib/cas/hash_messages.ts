/** @module What a thread that hashes and the one that started it say to each other. */

import type { HashJob } from "./hash_jobs.ts";

/** To the thread. Compressing is a conversation: `start` once, batches until `end`. */
export type ToHasher =
  | { readonly id: number; readonly job: HashJob }
  | {
    readonly id: number;
    readonly batch: ArrayBuffer;
    readonly pieces: number;
    readonly first: number;
  }
  | { readonly id: number; readonly encoder: number; readonly start: number }
  | {
    readonly id: number;
    readonly encoder: number;
    readonly batch: ArrayBuffer;
    readonly used: number;
  }
  | { readonly id: number; readonly encoder: number; readonly end: true }
  | { readonly id: number; readonly encoder: number; readonly close: true };

/** What came of a message: values or compressed bytes, and the batch that came with it. */
export interface HashAnswer {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly batch?: ArrayBuffer;
}

/** From the thread: the answer to a message, or word that it is ready. */
export type FromHasher =
  | { readonly type: "up" }
  | { readonly type: "done"; readonly id: number; readonly answer: HashAnswer }
  | {
    readonly type: "failed";
    readonly id: number;
    readonly message: string;
    /** The source of a copy has changed. */
    readonly changed: boolean;
  };
