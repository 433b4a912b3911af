/** @module `HOST:PORT`, where a server listens. */

import { isIP } from "node:net";
import { SubletError } from "./errors.ts";

/** Where a server listens or a client dials. */
export interface Address {
  /** A host name or an IP address, without brackets. */
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** The address that `text` says, as `HOST:PORT` or `[V6]:PORT`, or null when it is something else. */
export function addressOf(text: string): Address | null {
  const colon = text.lastIndexOf(":");
  const bracketed = /^\[(.*)\]$/.exec(text.slice(0, colon));
  const host = bracketed?.[1] ?? text.slice(0, colon);
  const digits = text.slice(colon + 1);
  if (colon < 1 || host === "" || !/^\d{1,5}$/.test(digits)) return null;
  // A zone, as in `fe80::1%eth0`, is a part of a v6 address.
  const v6 = isIP(host.replace(/%.*$/, "")) === 6;
  if (bracketed !== null && !v6) return null;
  if (!v6 && !/^[A-Za-z0-9._-]+$/.test(host)) return null;
  const port = Number(digits);
  return port <= 65_535 ? { host, port } : null;
}

/** As {@linkcode addressOf}; throws `usage` when `text` is no address. */
export function parseAddress(text: string): Address {
  const address = addressOf(text);
  if (address === null) {
    throw new SubletError("usage", `'${text}' is not HOST:PORT, such as 127.0.0.1:8443 or [::1]:0`);
  }
  return address;
}

/** `address` as text, with brackets around a v6 host. */
export function formatAddress({ host, port }: Address): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether only this machine can reach `host`: `localhost`, or a loopback IP address. Any other name is not. */
export function isLoopback(host: string): boolean {
  if (host.toLowerCase() === "localhost") return true;
  const kind = isIP(host);
  if (kind === 4) return host.startsWith("127.");
  if (kind !== 6) return false;
  const groups = new URL(`http://[${host}]`).hostname.slice(1, -1);
  // An IPv4 loopback address in v6 clothes is written by the URL parser as ::ffff:7fxx:xxxx.
  return groups === "::1" || /^::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}$/.test(groups);
}
