/** @module How a server is made to listen, and seen to: on TCP, with TLS or without, and on a Unix socket. */

import { type Address, formatAddress, messageOf, SubletError } from "../home/mod.ts";
import type { Tls } from "./https_network.ts";
import type { Listening } from "./listener.ts";
import { claimSocket, closeToOthers, isSocket } from "./socket_file.ts";

type Answer = Response | Promise<Response>;

/** On the TCP address `listen`; `port` is the real one once it listens, also for later times. */
export function tcpListening(
  listen: Address,
  tls: Tls | null,
  answer: (request: Request, remote: Deno.Addr) => Answer,
): Listening & { readonly port: number } {
  const hostname = listen.host;
  let { port } = listen;
  return {
    get port() {
      return port;
    },
    open(signal) {
      const server = start(formatAddress(listen), (common) =>
        Deno.serve({
          ...common,
          signal,
          hostname,
          port,
          ...(tls === null ? {} : { cert: tls.cert, key: tls.key }),
        }, (request, info) => answer(request, info.remoteAddr)));
      port = server.addr.port;
      return Promise.resolve(server);
    },
    listens: () => isTaken(hostname, port),
  };
}

/** On the Unix socket `path`. */
export function unixListening(path: string, answer: (request: Request) => Answer): Listening {
  return {
    async open(signal) {
      await claimSocket(path);
      const server = start(path, (common) => Deno.serve({ ...common, signal, path }, answer));
      await closeToOthers(path);
      return server;
    },
    listens: () => isSocket(path),
  };
}

/** Whether something listens there, which takes no connection to see. */
function isTaken(hostname: string, port: number): boolean {
  try {
    Deno.listen({ hostname, port }).close();
    return false;
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return true;
    throw error;
  }
}

interface Common {
  readonly onListen: () => void;
  readonly onError: (error: unknown) => Response;
}

function start<A extends Deno.Addr>(
  where: string,
  listen: (common: Common) => Deno.HttpServer<A>,
): Deno.HttpServer<A> {
  try {
    return listen({ onListen() {}, onError: () => new Response(null, { status: 500 }) });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) {
      throw new SubletError(
        "conflict",
        `cannot listen on ${where}: it is in use. Stop what listens there, or take another port`,
        { cause: error },
      );
    }
    throw new SubletError("failed", `cannot listen on ${where}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
