/** @module The body of an answer, which is received no faster than it is taken. */

import { messageOf, SubletError } from "../home/mod.ts";

/** Bytes that wait to be taken before the connection is no longer read, and before it is read again. */
const HIGH = 256 * 1024;
const LOW = 64 * 1024;
/** More bytes than this of an unwanted body are not waited for: its connection is closed. */
const MAX_DRAIN = 64 * 1024;

/** What receives the body. */
export interface Receiver {
  pause(): void;
  resume(): void;
  abort(reason: Error): void;
}

/** What a {@linkcode ResponseBody} needs to know of its request. */
export interface BodyContext {
  /** Milliseconds without a byte, while somebody waits for one, after which the body is given up. */
  readonly idleMs: number;
  readonly signal: AbortSignal | undefined;
  /** Called once, when the body has been received, failed or was cancelled. */
  readonly done: () => void;
}

/** The bytes of one answer. It is taken once, by one of its last three methods. */
export class ResponseBody {
  readonly #receiver: Receiver;
  readonly #context: BodyContext;
  readonly #chunks: Uint8Array[] = [];
  #waiting = 0;
  #paused = false;
  #ended = false;
  #error: unknown = null;
  #wake: (() => void) | null = null;
  #taken = false;

  constructor(receiver: Receiver, context: BodyContext) {
    this.#receiver = receiver;
    this.#context = context;
  }

  /** More bytes came. */
  push(chunk: Uint8Array): void {
    if (this.#ended) return;
    this.#chunks.push(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
    this.#waiting += chunk.length;
    if (this.#waiting > HIGH && !this.#paused) {
      this.#paused = true;
      this.#receiver.pause();
    }
    this.#wake?.();
  }

  /** All bytes came. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#context.done();
    this.#wake?.();
  }

  /** No more bytes come. */
  fail(error: unknown): void {
    if (this.#ended) return;
    const { signal } = this.#context;
    this.#error = signal?.aborted ? signal.reason : broken(error);
    this.end();
  }

  async bytes(): Promise<Uint8Array> {
    this.#take();
    const chunks: Uint8Array[] = [];
    for (let chunk = await this.#next(); chunk !== null; chunk = await this.#next()) {
      chunks.push(chunk);
    }
    return joined(chunks);
  }

  stream(): ReadableStream<Uint8Array> {
    this.#take();
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        const chunk = await this.#next();
        if (chunk === null) controller.close();
        else controller.enqueue(chunk);
      },
      cancel: () => this.#cancel(),
    }, { highWaterMark: 0 });
  }

  async discard(): Promise<void> {
    if (this.#taken) return;
    this.#take();
    let left = MAX_DRAIN;
    try {
      // A short body is received, since its connection can then be used again.
      for (let chunk = await this.#next(); chunk !== null; chunk = await this.#next()) {
        left -= chunk.length;
        if (left < 0) return this.#cancel();
      }
    } catch {
      // Nobody wants this body.
    }
  }

  #take(): void {
    if (this.#taken) throw new SubletError("internal", "the body of an answer is read only once");
    this.#taken = true;
  }

  #cancel(): void {
    if (this.#ended) return;
    this.#chunks.length = 0;
    this.end();
    this.#receiver.abort(new Error("the body of the answer was cancelled"));
  }

  /** The next bytes, or null at the end. */
  async #next(): Promise<Uint8Array | null> {
    if (this.#chunks.length === 0 && !this.#ended) await this.#more();
    const chunk = this.#chunks.shift();
    if (chunk === undefined) {
      if (this.#error !== null) throw this.#error;
      return null;
    }
    this.#waiting -= chunk.length;
    if (this.#paused && this.#waiting < LOW) {
      this.#paused = false;
      this.#receiver.resume();
    }
    return chunk;
  }

  #more(): Promise<void> {
    const { idleMs } = this.#context;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        const error = new Error(`no byte came for ${idleMs / 1000} s`);
        this.fail(error);
        this.#receiver.abort(error);
      }, idleMs);
      this.#wake = () => {
        this.#wake = null;
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [only] = chunks;
  if (chunks.length === 1 && only !== undefined) return only;
  const all = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

function broken(error: unknown): SubletError {
  if (error instanceof SubletError) return error;
  return new SubletError("unreachable", `the answer broke off: ${messageOf(error)}`, {
    cause: error,
  });
}
