/** @module The HTTP client of one server: over TCP, TLS or a Unix socket, with keep-alive and this machine's token. */

import { rootCertificates } from "node:tls";
import { messageOf, SubletError } from "../home/mod.ts";
import type { Env } from "../home/mod.ts";
import type { HttpClient, HttpRequest, HttpResponse } from "./contract.ts";
import { exchange } from "./exchange.ts";
import { openTransport, type Transport } from "./transport.ts";

/** Whom a client dials, and as whom. */
export interface HttpClientOptions {
  /** `http://…` or `https://…`, maybe with a path that comes before every request's; or `unix:PATH`, or an absolute path. */
  readonly server: string;
  /** Sent as `Authorization: Bearer …`. */
  readonly token?: string;
  /** Where `SSL_CERT_FILE`, a PEM file of roots to trust besides the usual ones, is looked up. Default: nowhere. */
  readonly env?: Env;
  /**
   * Every root to trust, as PEM text (`trustedRoots`), instead of the file: for a thread that may read neither it nor
   * the usual roots.
   */
  readonly ca?: string;
  /** The proxy to dial through, `http://[USER:PASSWORD@]HOST:PORT` (`proxyFor`). Default: none. */
  readonly proxy?: string;
}

const TIMEOUT_MS = 30_000;

/** Open a client. Nothing is dialed yet. Throws `usage` for a server that is no URL, `config` for roots that are not PEM. */
export function openHttpClient(options: HttpClientOptions): HttpClient {
  const ca = options.ca ?? trustedRoots(options.env ?? {});
  const transport = openTransport(options.server, ca, options.proxy);
  const authorization = options.token === undefined ? {} : {
    authorization: `Bearer ${options.token}`,
  };
  return new PooledHttpClient(transport, authorization);
}

/**
 * The roots to trust when `SSL_CERT_FILE` names some besides the usual ones: all of them, as PEM text. Undefined when it
 * names none. Throws `config` when the file cannot be read or holds no certificate.
 */
export function trustedRoots(env: Env): string | undefined {
  const path = env.SSL_CERT_FILE;
  if (path === undefined || path === "") return undefined;
  try {
    const text = Deno.readTextFileSync(path);
    if (text.includes("-----BEGIN CERTIFICATE-----")) return [...rootCertificates, text].join("\n");
  } catch (error) {
    throw new SubletError(
      "config",
      `SSL_CERT_FILE = ${path}: cannot be read: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
  throw new SubletError("config", `SSL_CERT_FILE = ${path}: must be PEM certificates`);
}

class PooledHttpClient implements HttpClient {
  readonly #transport: Transport;
  readonly #authorization: Readonly<Record<string, string>>;
  readonly url: string;

  constructor(transport: Transport, authorization: Readonly<Record<string, string>>) {
    this.#transport = transport;
    this.#authorization = authorization;
    this.url = transport.url;
  }

  async request(request: HttpRequest): Promise<HttpResponse> {
    request.signal?.throwIfAborted();
    return await exchange(this.#transport, {
      ...request,
      headers: { ...this.#authorization, ...request.headers },
    }, request.timeoutMs ?? TIMEOUT_MS);
  }

  [Symbol.dispose](): void {
    this.#transport.close();
  }
}
