/**
 * @module A few threads that hash and compress for large blobs. They start when the first of these comes, and end when
 * there was nothing to do for a while, since each takes some MiB of memory. Until they are up, and where there can be
 * none, the calling thread does the work.
 */

import { type HashJob, work } from "./hash_jobs.ts";
import type { HashAnswer } from "./hash_messages.ts";
import { HashThread, ThreadLost } from "./hash_thread.ts";

/** The most threads. */
const MAX_THREADS = 4;

/** They end after so many milliseconds without work. */
const IDLE_MS = 2_000;

/** An encoder of one frame, in a thread. Its methods reject with `unavailable`. */
export interface PoolEncoder {
  /** Take the `used` bytes of content that lie in `batch` as blocks; what is ready, and the batch. */
  write(batch: ArrayBuffer, used: number): Promise<Required<HashAnswer>>;
  /** What is left. */
  end(): Promise<Uint8Array<ArrayBuffer>>;
  close(): void;
}

function whole({ bytes, batch }: HashAnswer): Required<HashAnswer> {
  if (batch === undefined) throw new Error("the thread kept the batch");
  return { bytes, batch };
}

/** The threads. */
export class HashPool {
  readonly #threads: HashThread[];
  #encoders = 0;
  #busy = 0;
  #ended = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  private constructor(count: number, onLost: () => void) {
    this.#threads = Array.from({ length: count }, () => new HashThread(onLost));
  }

  /** Threads of the pool. */
  get width(): number {
    return this.#threads.length;
  }

  /** A pool of `count` threads, once they are up, which end with it or when they idle: then `onEnd` is called. */
  static async start(count: number, onEnd: () => void): Promise<HashPool> {
    const pool: HashPool = new HashPool(count, () => {
      pool.end();
      onEnd();
    });
    try {
      await Promise.all(pool.#threads.map((thread) => thread.ready()));
    } catch (error) {
      pool.end();
      throw error;
    }
    pool.#onEnd = onEnd;
    pool.#rest();
    return pool;
  }

  #onEnd = () => {};

  /** Do `job`, in one of the threads; the values of its pieces. Rejects with `conflict` and `unavailable`. */
  async run(job: HashJob): Promise<Uint8Array<ArrayBuffer>> {
    return await this.#working(async () => {
      try {
        return (await this.#idlest().ask({ job })).bytes;
      } catch (error) {
        if (!(error instanceof ThreadLost)) throw error;
        return work(job);
      }
    });
  }

  /**
   * The values of the first `pieces` pieces in `batch`, whose first is number `first` of the blob: as in a `BatchJob`, but
   * the memory goes to the thread and comes back. Copying from and to shared memory costs more than that. Rejects with
   * `unavailable` when the thread dies.
   */
  async hash(batch: ArrayBuffer, pieces: number, first: number): Promise<Required<HashAnswer>> {
    return await this.#working(async () =>
      whole(await this.#idlest().ask({ batch, pieces, first }))
    );
  }

  /** An encoder in one of the threads, of a blob of `length` bytes. */
  encoder(length: number): PoolEncoder {
    const thread = this.#idlest();
    const encoder = ++this.#encoders;
    const release = this.#hold();
    thread.ask({ encoder, start: length }).catch(() => {});
    return {
      write: async (batch, used) => whole(await thread.ask({ encoder, batch, used })),
      end: async () => (await thread.ask({ encoder, end: true })).bytes,
      close: () => {
        release();
        thread.ask({ encoder, close: true }).catch(() => {});
      },
    };
  }

  #idlest(): HashThread {
    const [first, ...others] = this.#threads;
    if (first === undefined) throw new Error("a pool has threads");
    return others.reduce((best, thread) => thread.load < best.load ? thread : best, first);
  }

  async #working<T>(run: () => Promise<T>): Promise<T> {
    const release = this.#hold();
    try {
      return await run();
    } finally {
      release();
    }
  }

  /** Keep the threads until the function that is returned is called. */
  #hold(): () => void {
    clearTimeout(this.#timer);
    this.#busy++;
    let held = true;
    return () => {
      if (held && --this.#busy === 0) this.#rest();
      held = false;
    };
  }

  #rest(): void {
    if (this.#ended) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.end();
      this.#onEnd();
    }, IDLE_MS);
  }

  /** End the threads. What they are asked for is rejected or done here. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
    for (const thread of this.#threads) thread.end();
  }
}

let pool: HashPool | null = null;
let starting: Promise<void> | null = null;
/** There can be no threads here. */
let refused = false;

/**
 * Whether threads should hash what is being received. Their messages are a quarter more work in all, so it is worth it
 * where there is a core besides those that send and receive.
 */
export function hashesAside(): boolean {
  return navigator.hardwareConcurrency > 2;
}

/** The threads, when they are up. */
export function hashPool(): HashPool | null {
  return pool;
}

/** Start the threads, if they are not up, and wait until they are; null where there can be none. */
export async function startHashPool(): Promise<HashPool | null> {
  if (pool === null && canStart()) {
    starting ??= start().finally(() => starting = null);
    await starting;
  }
  return pool;
}

/** End the threads. */
export async function endHashPool(): Promise<void> {
  await starting;
  pool?.end();
  pool = null;
}

async function start(): Promise<void> {
  try {
    const count = Math.min(MAX_THREADS, navigator.hardwareConcurrency);
    let started: HashPool | null = null;
    started = await HashPool.start(count, () => {
      if (pool === started) pool = null;
    });
    pool = started;
  } catch {
    // Then this thread does it all.
    refused = true;
  }
}

/** Whether threads would help, and are to be had. */
function canStart(): boolean {
  if (refused || navigator.hardwareConcurrency < 2) return false;
  if (typeof Worker === "undefined") return false;
  // Sources are read with the permissions of whoever starts a thread; those in a compiled file need none.
  if (Deno.build.standalone) return true;
  const path = import.meta.dirname ?? "/";
  return Deno.permissions.querySync({ name: "read", path }).state === "granted";
}
