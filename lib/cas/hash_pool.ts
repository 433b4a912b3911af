/**
 * @module A few threads that hash and compress for large blobs. They start when the first of these comes, and end when
 * there was nothing to do for a while, since each takes some MiB of memory. Until they are up, and where there can be
 * none, the calling thread does the work.
 */

import { type HashJob, work } from "./hash_jobs.ts";
import { HashThread, ThreadLost } from "./hash_thread.ts";
import type { Steps } from "./zstd_steps.ts";

/** The most threads. */
const MAX_THREADS = 4;

/** They end after so many milliseconds without work. */
const IDLE_MS = 2_000;

/** The threads. */
export class HashPool {
  readonly #threads: HashThread[];
  #encoders = 0;
  #busy = 0;
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
        return await this.#idlest().ask({ job });
      } catch (error) {
        if (!(error instanceof ThreadLost)) throw error;
        return work(job);
      }
    });
  }

  /** An encoder, as `createEncoder` makes them, in one of the threads. Its pieces may lie in shared memory. */
  encoder(length: number): Steps {
    const thread = this.#idlest();
    const encoder = ++this.#encoders;
    const release = this.#hold();
    const parts = (bytes: Uint8Array) => bytes.length === 0 ? [] : [bytes];
    const started = thread.ask({ encoder, start: length });
    started.catch(() => {});
    return {
      write: async (bytes) => parts(await thread.ask({ encoder, bytes: [bytes] })),
      end: async () => parts(await thread.ask({ encoder, end: true })),
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
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.end();
      this.#onEnd();
    }, IDLE_MS);
  }

  /** End the threads. What they are asked for is rejected or done here. */
  end(): void {
    clearTimeout(this.#timer);
    for (const thread of this.#threads) thread.end();
  }
}

let pool: HashPool | null = null;
let starting: Promise<void> | null = null;
/** There can be no threads here. */
let refused = false;

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
    pool = await HashPool.start(count, () => pool = null);
  } catch {
    // Then this thread does it all.
    refused = true;
  }
}

/** Whether threads would help, and are to be had. */
function canStart(): boolean {
  if (refused || navigator.hardwareConcurrency < 2) return false;
  if (typeof SharedArrayBuffer === "undefined" || typeof Worker === "undefined") return false;
  // Sources are read with the permissions of whoever starts a thread; those in a compiled file need none.
  if (Deno.build.standalone) return true;
  const path = import.meta.dirname ?? "/";
  return Deno.permissions.querySync({ name: "read", path }).state === "granted";
}
