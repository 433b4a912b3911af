/** @module How the client's connections are made: `node:http` agents for plain, TLS and Unix sockets. */

import http from "node:http";
import https from "node:https";
import { rootCertificates } from "node:tls";
import { SubletError } from "../home/mod.ts";

/** Connections that are kept open while idle, and at once at most. */
const MAX_IDLE = 32;
const MAX_SOCKETS = 256;

/** Makes requests of one server. */
export interface Transport {
  /** For messages: `https://host:port` or the socket's path. */
  readonly url: string;
  /** The host that a certificate must name, and its port. Null: no TLS. */
  readonly tls: { readonly host: string; readonly port: number; readonly ca?: string } | null;
  request(options: http.RequestOptions): http.ClientRequest;
  close(): void;
}

/** The transport to `server`. `ca`: PEM text of roots besides the usual ones. */
export function openTransport(server: string, ca: string | undefined): Transport {
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
  return tcpTransport(url, ca);
}

function unixTransport(path: string): Transport {
  const agent = new http.Agent({
    keepAlive: true,
    maxFreeSockets: MAX_IDLE,
    maxSockets: MAX_SOCKETS,
  });
  return {
    url: path,
    tls: null,
    request: (options) => http.request({ ...options, socketPath: path, host: "localhost", agent }),
    close: () => agent.destroy(),
  };
}

function tcpTransport(url: URL, ca: string | undefined): Transport {
  const secure = url.protocol === "https:";
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = Number(url.port || (secure ? 443 : 80));
  const prefix = url.pathname.replace(/\/+$/, "");
  const options = { keepAlive: true, maxFreeSockets: MAX_IDLE, maxSockets: MAX_SOCKETS };
  const agent = secure
    // Where `ca` replaces the usual roots they must be in it, and a list of several is not taken everywhere.
    ? new https.Agent({
      ...options,
      ...(ca === undefined ? {} : { ca: `${rootCertificates.join("\n")}\n${ca}` }),
    })
    : new http.Agent(options);
  const module = secure ? https : http;
  return {
    url: `${url.protocol}//${url.host}${prefix}`,
    tls: secure ? { host, port, ...(ca === undefined ? {} : { ca }) } : null,
    request: (each) => module.request({ ...each, path: prefix + each.path, host, port, agent }),
    close: () => agent.destroy(),
  };
}
