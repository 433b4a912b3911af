/** @module A listener that listens again after it failed. */

import { type Log, messageOf, nullLog } from "../home/mod.ts";

type Server = Deno.HttpServer<Deno.Addr>;

/** Before a listener that failed is opened again, and between tries. */
const AGAIN_MS = 1_000;

/**
 * What `Deno.serve` gave, and gives again when it ends by itself: it takes no connection any more once one could not be
 * accepted, as when the process has as many files open as it may. Its connections are cut then, so that clients dial anew.
 */
export class Listener {
  readonly #log: Log;
  readonly #open: (signal: AbortSignal) => Promise<Server>;
  #server: Server;
  #abort: AbortController;
  #stopped = false;

  constructor(
    server: Server,
    abort: AbortController,
    open: (signal: AbortSignal) => Promise<Server>,
    log: Log = nullLog,
  ) {
    this.#log = log;
    this.#open = open;
    this.#server = server;
    this.#abort = abort;
    this.#watch(server);
  }

  /** Take no new connection, and resolve when the others ended. */
  shutdown(): Promise<void> {
    this.#stopped = true;
    return this.#server.shutdown();
  }

  #watch(server: Server): void {
    server.finished.catch((error) => this.#again(error));
  }

  async #again(error: unknown): Promise<void> {
    let reason = error;
    this.#abort.abort();
    while (!this.#stopped) {
      this.#log.event("http.listener_failed", { error: messageOf(reason) });
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      if (this.#stopped) return;
      try {
        this.#abort = new AbortController();
        const server = await this.#open(this.#abort.signal);
        this.#server = server;
        this.#watch(server);
        if (this.#stopped) await server.shutdown();
        return;
      } catch (again) {
        reason = again;
      }
    }
  }
}
