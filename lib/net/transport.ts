/** @module How the client's connections are made: a pool of them to one server, plain, with TLS, or on a Unix socket. */

import type { Dispatcher, Pool } from "undici";
import { SubletError } from "../home/mod.ts";
import { hideEnvironment } from "./hidden_environment.ts";

/** Connections at once. */
const CONNECTIONS = 256;
const CONNECT_MS = 10_000;
/** How long an idle connection is kept when the server does not say for how long it keeps it. */
const KEEP_ALIVE_MS = 60_000;

/** The connections to one server. */
export interface Transport {
  /** For messages: `https://host:port` or the socket's path. */
  readonly url: string;
  /** What comes before every request's path. */
  readonly prefix: string;
  /** Whose certificate is asked for, and who is trusted to have signed it. Null: no TLS. */
  readonly tls: { readonly host: string; readonly port: number; readonly ca?: string } | null;
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): Promise<void>;
  close(): void;
}

/**
 * The transport to `server`. `ca`: PEM text of every root to trust; undefined: the usual ones. `proxy`: the URL of the
 * proxy that an http or https server is dialed through; undefined: none.
 */
export function openTransport(
  server: string,
  ca: string | undefined,
  proxy?: string,
): Transport {
  if (server.startsWith("unix:")) return unixTransport(server.slice("unix:".length));
  if (server.startsWith("/")) return unixTransport(server);
  const url = URL.canParse(server) ? new URL(server) : null;
  if (url === null || !["http:", "https:"].includes(url.protocol) || url.hostname === "") {
    throw new SubletError(
      "usage",
      `'${server}' is no server: give http://HOST:PORT or https://HOST:PORT`,
    );
  }
  if (url.username !== "" || url.search !== "" || url.hash !== "") {
    throw new SubletError("usage", `'${server}' must hold no user, query or fragment`);
  }
  return tcpTransport(url, ca, proxy);
}

function unixTransport(path: string): Transport {
  return { url: path, prefix: "", tls: null, ...pooled("http://localhost", { socketPath: path }) };
}

function tcpTransport(url: URL, ca: string | undefined, proxy: string | undefined): Transport {
  const prefix = url.pathname.replace(/\/+$/, "");
  const secure = url.protocol === "https:";
  const options = ca === undefined ? {} : { connect: { ca } };
  return {
    url: url.origin + prefix,
    prefix,
    // Through a proxy there is nobody to ask directly.
    tls: secure && proxy === undefined
      ? {
        host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
        port: Number(url.port || 443),
        ...(ca === undefined ? {} : { ca }),
      }
      : null,
    ...proxy === undefined ? pooled(url.origin, options) : proxied(url.origin, proxy, ca),
  };
}

/** A pool that is loaded and made with the first request. */
function pooled(origin: string, options: Pool.Options): Pick<Transport, "dispatch" | "close"> {
  let pool: Promise<Pool> | null = null;
  let closed = false;
  const open = async () => {
    hideEnvironment();
    // The whole of undici takes far longer to load than this part of it.
    const module: { readonly default: typeof Pool } = await import(
      "undici/lib/dispatcher/pool.js"
    );
    return new module.default(origin, {
      connections: CONNECTIONS,
      // HTTP/2 of Deno 2.6, which is in the compiled file, gets no answer to a request with a body.
      allowH2: false,
      connectTimeout: CONNECT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      // Both are timed by the exchange, which knows whether a body still moves.
      headersTimeout: 0,
      bodyTimeout: 0,
      ...options,
    });
  };
  return {
    async dispatch(each, handler) {
      if (closed) throw new SubletError("unavailable", "this HTTP client is closed");
      (await (pool ??= open())).dispatch(each, handler);
    },
    close() {
      closed = true;
      pool?.then((opened) => opened.destroy()).catch(() => {});
    },
  };
}

/** Tunnels through the proxy at `uri`, which may hold a user and a password. */
function proxied(
  origin: string,
  uri: string,
  ca: string | undefined,
): Pick<Transport, "dispatch" | "close"> {
  const tunnel = { proxy: new URL(uri), target: new URL(origin), ca, timeoutMs: CONNECT_MS };
  return pooled(origin, {
    connect(_options, callback) {
      import("./tunnel.ts").then(({ openTunnel }) => openTunnel(tunnel)).then(
        (socket) => callback(null, socket),
        (error) => callback(error instanceof Error ? error : new Error(String(error)), null),
      );
    },
  });
}
