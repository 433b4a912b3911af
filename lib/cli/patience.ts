/** @module Calls that go on through a restart of the server. */

import { SubletError } from "../home/mod.ts";

/** How long a server that does not answer is waited for, and how long until it is asked again, milliseconds. */
const PATIENCE_MS = 120_000;
const RETRY_MS = 500;

/** Makes one call after another, and waits for a server that is away, up to two minutes each time. */
export class Patience {
  #silentSince: number | null = null;

  /** The answer of `call`, or null when the server did not answer: then ask again. */
  async ask<T>(call: () => Promise<T>): Promise<T | null> {
    try {
      const answer = await call();
      this.#silentSince = null;
      return answer;
    } catch (error) {
      const away = error instanceof SubletError &&
        ["unreachable", "unavailable", "failed"].includes(error.code);
      if (!away) throw error;
      this.#silentSince ??= Date.now();
      if (Date.now() - this.#silentSince > PATIENCE_MS) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      return null;
    }
  }
}
