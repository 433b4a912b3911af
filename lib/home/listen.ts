/** @module Where a server may listen. */

import { type Address, isLoopback } from "./address.ts";

/** Files of a certificate chain and its key, PEM, absolute. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** Where TLS is ended: here with these files, at a proxy before the server, or nowhere (null). */
export type TlsSetting = TlsFiles | "proxy" | null;

/** Why a server may not listen on `listen` with `tls`, or null when it may. */
export function listenReason(listen: Address, tls: TlsSetting): string | null {
  if (tls !== null || isLoopback(listen.host)) return null;
  return "it is no loopback address, and without TLS tokens would cross the network in clear: set tls = " +
    '{ cert = "FILE", key = "FILE" } in [plugins.network], or tls = "proxy" when a proxy before the ' +
    "server ends TLS";
}
