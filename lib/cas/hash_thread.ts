/** @module One thread that hashes, seen from the one that started it. */

import { SubletError } from "../home/mod.ts";
import type { FromHasher, HashAnswer, ToHasher } from "./hash_messages.ts";

/** The thread has died: what it was asked for is not done. */
export class ThreadLost extends SubletError {
  constructor() {
    super("unavailable", "a thread of the store has died. Try again");
  }
}

/** `message` without its id. */
type Unnumbered<T> = T extends { readonly id: number } ? Omit<T, "id"> : never;

interface Waiting {
  resolve(answer: HashAnswer): void;
  reject(error: Error): void;
}

/** A Web Worker that runs `hash_worker.ts`. */
export class HashThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  readonly #up = Promise.withResolvers<void>();
  #last = 0;
  #lost = false;

  /** Start it. `onLost` is called when it dies. */
  constructor(onLost: () => void) {
    this.#worker = new Worker(new URL("./hash_worker.ts", import.meta.url), {
      type: "module",
      name: "hashing",
    });
    this.#up.promise.catch(() => {});
    this.#worker.onmessage = ({ data }: MessageEvent<FromHasher>) => this.#take(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.end();
      onLost();
    };
  }

  /** How many answers are awaited. */
  get load(): number {
    return this.#waiting.size;
  }

  /** Wait until it answers. Rejects with {@linkcode ThreadLost}. */
  async ready(): Promise<void> {
    await this.#up.promise;
    // The first answer of a thread that a Web Worker started takes half a second (seen in Deno 2.9.6).
    await this.ask({ batch: new ArrayBuffer(128 * 1024), pieces: 1, first: 0 });
  }

  /** Its answer to `message`, whose batch goes there and comes back. Rejects with {@linkcode ThreadLost}, `conflict` or `unavailable`. */
  ask(message: Unnumbered<ToHasher>): Promise<HashAnswer> {
    if (this.#lost) return Promise.reject(new ThreadLost());
    const id = ++this.#last;
    const { promise, resolve, reject } = Promise.withResolvers<HashAnswer>();
    this.#waiting.set(id, { resolve, reject });
    this.#worker.postMessage({ ...message, id }, "batch" in message ? [message.batch] : []);
    return promise;
  }

  #take(message: FromHasher): void {
    if (message.type === "up") return this.#up.resolve();
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.type === "done") return waiting?.resolve(message.answer);
    const { changed } = message;
    waiting?.reject(
      new SubletError(
        changed ? "conflict" : "unavailable",
        changed
          ? `${message.message}. Try again`
          : `a thread of the store failed: ${message.message}. Check the free space, then try again`,
      ),
    );
  }

  /** End it, and reject what is awaited with {@linkcode ThreadLost}. */
  end(): void {
    this.#lost = true;
    this.#worker.terminate();
    const lost = new ThreadLost();
    this.#up.reject(lost);
    for (const { reject } of this.#waiting.values()) reject(lost);
    this.#waiting.clear();
  }
}
