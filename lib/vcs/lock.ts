/** @module A lock of one repository within this process: many may use it, one alone may rebuild it. */

interface Waiter {
  readonly alone: boolean;
  readonly enter: () => void;
}

/** Shared by those who use, exclusive for one who remakes. First come, first served, so nobody starves. */
export class UseLock {
  #users = 0;
  #alone = false;
  readonly #waiting: Waiter[] = [];

  /** Run `body` beside others who do. */
  shared<T>(body: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#hold(false, body, signal);
  }

  /** Run `body` with nobody else inside. */
  exclusive<T>(body: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#hold(true, body, signal);
  }

  async #hold<T>(alone: boolean, body: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    await this.#enter(alone, signal);
    try {
      return await body();
    } finally {
      if (alone) this.#alone = false;
      else this.#users--;
      this.#admit();
    }
  }

  #enter(alone: boolean, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        const at = this.#waiting.indexOf(waiter);
        if (at < 0) return;
        this.#waiting.splice(at, 1);
        reject(signal?.reason);
        this.#admit();
      };
      const waiter: Waiter = {
        alone,
        enter: () => {
          signal?.removeEventListener("abort", leave);
          resolve();
        },
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(waiter);
      this.#admit();
    });
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#alone || (next.alone && this.#users > 0)) return;
      this.#waiting.shift();
      if (next.alone) this.#alone = true;
      else this.#users++;
      next.enter();
    }
  }
}
