/**
 * @module A blob that is delivered while it is being fetched into a cache. The fetch waits for no reader: one that
 * falls behind reads the rest from the cache, once it is there.
 */

import type { BlobBody } from "./contract.ts";
import { streamOfNext } from "./streams.ts";

/** Bytes that wait for a reader; one that is further behind is not waited for. */
const AHEAD = 8 * 1024 * 1024;

/** Gives the blob from byte `at` on, when the fetch has come to its end. */
export type Rest = (at: number) => Promise<ReadableStream<Uint8Array>>;

/** One reader of a fetch that is under way. */
export class Live {
  /** How long the blob is, or null when there is none or it is not known: then it is not delivered live. */
  readonly opened: Promise<number | null>;
  readonly #open: (length: number | null) => void;
  #pieces: Uint8Array[] = [];
  #held = 0;
  #delivered = 0;
  #wake: (() => void) | null = null;
  /** `pieces`: what comes is kept for the reader. `whole`: all of it was. `rest`: the reader has to get it. */
  #state: "pieces" | "whole" | "rest" | "gone" = "pieces";
  #rest: ReadableStreamDefaultReader<Uint8Array> | null = null;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<number | null>();
    this.opened = promise;
    this.#open = resolve;
  }

  /** The fetch has found the blob, of `length` bytes, or has not. */
  open(length: number | null): void {
    this.#open(length);
  }

  /** The fetch got `bytes`, which are good only now. */
  push(bytes: Uint8Array): void {
    if (this.#state !== "pieces") return;
    if (this.#held + bytes.length > AHEAD) this.#state = "rest";
    else {
      this.#pieces.push(bytes.slice());
      this.#held += bytes.length;
    }
    this.#wake?.();
  }

  /** The fetch got all of the blob, checked. */
  complete(): void {
    if (this.#state === "pieces") this.#state = "whole";
    this.#wake?.();
  }

  /** The blob of `length` bytes. `fetched` settles with the fetch; what it fails with, the stream fails with. */
  body(length: number, fetched: Promise<unknown>, rest: Rest): BlobBody {
    fetched.catch(() => {}).finally(() => {
      if (this.#state === "pieces") this.#state = "rest";
      this.#wake?.();
    });
    const next = async (): Promise<Uint8Array | null> => {
      while (true) {
        const piece = this.#pieces.shift();
        if (piece !== undefined) {
          this.#held -= piece.length;
          this.#delivered += piece.length;
          return piece;
        }
        if (this.#state === "whole") return null;
        if (this.#state === "rest") return await this.#more(fetched, rest);
        await new Promise<void>((resolve) => this.#wake = resolve);
      }
    };
    const close = () => {
      this.#state = "gone";
      this.#pieces = [];
      this.#rest?.cancel().catch(() => {});
    };
    return { length, stream: streamOfNext(next, { close }) };
  }

  async #more(fetched: Promise<unknown>, rest: Rest): Promise<Uint8Array | null> {
    if (this.#rest === null) {
      await fetched;
      this.#rest = (await rest(this.#delivered)).getReader();
    }
    return (await this.#rest.read()).value ?? null;
  }
}
