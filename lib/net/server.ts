/** @module The HTTP server: a TCP or TLS listener and the home's Unix socket, each on `Deno.serve`. */

import {
  type Address,
  formatAddress,
  type Log,
  messageOf,
  nullLog,
  SubletError,
} from "../home/mod.ts";
import type { Peer } from "./contract.ts";
import { twoLengths } from "./framing.ts";
import { onError } from "./http_error.ts";
import type { Tls } from "./https_network.ts";
import { InFlight } from "./in_flight.ts";
import { Listener } from "./listener.ts";
import { tcpListening, unixListening } from "./listening.ts";

/** How a server is started. Exactly one of `listen` and `unix` says where. */
export interface ServeOptions {
  /** Answers a request. */
  readonly fetch: (request: Request, peer: Peer) => Response | Promise<Response>;
  /** A TCP address; port 0 takes any that is free. */
  readonly listen?: Address;
  /** The path of a Unix socket. Its directory is there, and nobody else's to enter. */
  readonly unix?: string;
  /** Ends TLS on the TCP listener. */
  readonly tls?: Tls | null;
  /** Shuts the server down, as `shutdown(5_000)` does. */
  readonly signal?: AbortSignal;
  /** Where a handler's own failures go. */
  readonly log?: Log;
}

/** A server that listens. */
export interface HttpServer extends AsyncDisposable {
  /** `http://HOST:PORT` or `https://…`, with brackets around a v6 host; `unix:PATH` for a socket. */
  readonly url: string;
  /** Where it listens, with the real port. Null: on a Unix socket. */
  readonly addr: Address | null;
  /**
   * Take no new connection, let the requests in flight end, and after `deadlineMs` answer 503 in the place of handlers
   * that still run; bodies that are still on their way are not waited for. Nor is, from the start, a handler whose
   * client has left, if it looked at `request.signal` before: one that may wait long should. Repeatable.
   */
  shutdown(deadlineMs: number): Promise<void>;
}

const UNIX_PEER: Peer = { address: null, unix: true };
const GRACE_MS = 5_000;

/** Listen. Throws `conflict` for an address or a socket that is in use, and `failed` where it cannot listen. */
export async function serveHttp(options: ServeOptions): Promise<HttpServer> {
  const { listen, unix, signal } = options;
  if ((listen === undefined) === (unix === undefined)) {
    throw new SubletError("internal", "a server listens on an address or on a socket, on one");
  }
  const server = unix === undefined
    ? await listenTcp(options, listen as Address)
    : await listenUnix(options, unix);
  const stop = () => void server.shutdown(GRACE_MS);
  if (signal?.aborted) stop();
  else signal?.addEventListener("abort", stop, { once: true });
  return server;
}

async function listenTcp(options: ServeOptions, listen: Address): Promise<HttpServer> {
  const inFlight = new InFlight();
  const tls = options.tls ?? null;
  const answer = handler(options, inFlight);
  const how = tcpListening(listen, tls, (request, remote) => answer(request, new TcpPeer(remote)));
  const listener = await Listener.open(how, options.log);
  const addr = { host: listen.host, port: how.port };
  const url = `${tls === null ? "http" : "https"}://${formatAddress(addr)}`;
  return new RunningServer(url, addr, listener, inFlight);
}

async function listenUnix(options: ServeOptions, path: string): Promise<HttpServer> {
  const inFlight = new InFlight();
  const answer = handler(options, inFlight);
  const how = unixListening(path, (request) => answer(request, UNIX_PEER));
  return new RunningServer(`unix:${path}`, null, await Listener.open(how, options.log), inFlight);
}

/** Reads the remote address only when somebody asks. */
class TcpPeer implements Peer {
  readonly unix = false;
  readonly #remote: Deno.Addr;

  constructor(remote: Deno.Addr) {
    this.#remote = remote;
  }

  get address(): string | null {
    return "hostname" in this.#remote ? this.#remote.hostname : null;
  }
}

function handler(
  { fetch, log = nullLog }: ServeOptions,
  inFlight: InFlight,
): (request: Request, peer: Peer) => Response | Promise<Response> {
  const failed = onError("api", log);
  const fail = (request: Request, error: unknown) =>
    failed(error instanceof Error ? error : new Error(messageOf(error)), {
      req: { method: request.method, path: new URL(request.url).pathname },
    });
  return (request, peer) => {
    try {
      const answer = twoLengths(request) ?? fetch(request, peer);
      if (answer instanceof Response) return answer;
      return inFlight.track(request, answer.catch((error) => fail(request, error)));
    } catch (error) {
      return fail(request, error);
    }
  };
}

class RunningServer implements HttpServer {
  readonly url: string;
  readonly addr: Address | null;
  readonly #server: Listener;
  readonly #inFlight: InFlight;
  #stopped: Promise<void> | null = null;

  constructor(
    url: string,
    addr: Address | null,
    server: Listener,
    inFlight: InFlight,
  ) {
    this.url = url;
    this.addr = addr;
    this.#server = server;
    this.#inFlight = inFlight;
  }

  shutdown(deadlineMs: number): Promise<void> {
    return this.#stopped ??= this.#shutdown(deadlineMs);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.shutdown(0);
  }

  async #shutdown(deadlineMs: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<"late">((resolve) => {
      timer = setTimeout(() => resolve("late"), deadlineMs);
    });
    this.#inFlight.leaveTheGone();
    const ended = this.#server.shutdown().then(() => "ended", () => "ended");
    const first = await Promise.race([ended, late]);
    clearTimeout(timer);
    if (first === "ended") return;
    this.#inFlight.leaveAll();
    // Deno has no way to cut the bodies that are still on their way once its shutdown began; they are not waited for.
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 0))]);
  }
}
