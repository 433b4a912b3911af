/** @module A listener that listens again after it failed. */

import { isHostFault, type Log, messageOf, nullLog } from "../home/mod.ts";

type Server = Deno.HttpServer<Deno.Addr>;

/** Before a listener that failed is opened again, and between tries. */
const AGAIN_MS = 1_000;
/** Between two looks whether it listens. */
const LOOK_MS = 1_000;
/** So many looks in a row that the machine refuses are a failure too: it can take no connection either. */
const MAX_BLIND = 3;

/** How a listener is opened, and looked at. */
export interface Listening {
  readonly open: (signal: AbortSignal) => Promise<Server>;
  /** Whether something listens there. Throws when that cannot be told. */
  readonly listens: () => boolean;
}

/** A server that listens, as long as it does. */
interface Running {
  readonly server: Server;
  readonly abort: AbortController;
  failed: boolean;
  /** Looks in a row that the machine refused. */
  blind: number;
}

/**
 * What `Deno.serve` gave, and gives again when it ends by itself: it takes no connection any more once one could not be
 * accepted, as when the process has as many files open as it may. It says so only when all of its connections have
 * ended, which those of workers never do: so it is looked at. Its connections are cut then, so that clients dial anew.
 */
export class Listener {
  readonly #log: Log;
  readonly #how: Listening;
  #running: Running;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stopped = false;

  private constructor(how: Listening, running: Running, log: Log) {
    this.#how = how;
    this.#log = log;
    this.#running = running;
    this.#watch(running);
  }

  /** Listen. Rejects as `how.open` does. */
  static async open(how: Listening, log: Log = nullLog): Promise<Listener> {
    return new Listener(how, await begin(how), log);
  }

  /** Take no new connection, and resolve when the others ended. */
  shutdown(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    return this.#running.server.shutdown();
  }

  #watch(running: Running): void {
    running.server.finished.catch((error) => this.#failed(running, error));
    this.#lookSoon(running);
  }

  #lookSoon(running: Running): void {
    clearTimeout(this.#timer);
    if (this.#stopped || running.failed) return;
    this.#timer = setTimeout(() => this.#look(running), LOOK_MS);
    Deno.unrefTimer(this.#timer);
  }

  #look(running: Running): void {
    let failure: unknown = null;
    try {
      if (!this.#how.listens()) failure = new Error("nothing listens any more");
      running.blind = 0;
    } catch (error) {
      // Nothing can be said of it, unless it stays like that.
      running.blind = isHostFault(error) ? running.blind + 1 : 0;
      if (running.blind >= MAX_BLIND) failure = error;
    }
    if (failure === null) this.#lookSoon(running);
    else void this.#failed(running, failure);
  }

  /** Cut what is connected, and listen again as soon as that can be. */
  async #failed(running: Running, error: unknown): Promise<void> {
    if (this.#stopped || running.failed) return;
    running.failed = true;
    clearTimeout(this.#timer);
    running.abort.abort();
    for (let reason = error; !this.#stopped;) {
      this.#log.event("http.listener_failed", { error: messageOf(reason) });
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      if (this.#stopped) return;
      try {
        const next = await begin(this.#how);
        this.#running = next;
        if (this.#stopped) return await next.server.shutdown();
        return this.#watch(next);
      } catch (again) {
        reason = again;
      }
    }
  }
}

async function begin({ open }: Listening): Promise<Running> {
  const abort = new AbortController();
  try {
    return { server: await open(abort.signal), abort, failed: false, blind: 0 };
  } catch (error) {
    // It may listen already.
    abort.abort();
    throw error;
  }
}
