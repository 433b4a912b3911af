/** @module What a worker may do beside its supervisor: dial its server and its store, and use its home. */

import { isAbsolute, join } from "node:path";
import { SubletError } from "../../home/mod.ts";

/** The permissions of the Web Worker. */
export interface Grants {
  /** `host:port` each. */
  readonly net: string[];
  readonly read: string[];
  readonly write: string[];
}

/**
 * The grants of a worker of `server` at `home` whose store is `[plugins.cas]`'s `table`. Throws `config` for a store
 * that nobody knows the needs of.
 */
export function grantsOf(
  server: string,
  home: string,
  table: Readonly<Record<string, unknown>>,
): Grants {
  const net = new Set<string>();
  const paths = new Set([home]);
  const address = addressOf(server);
  if (address === null) paths.add(server.replace(/^unix:/, ""));
  else net.add(address);
  const provider = table["provider"] ?? "disk";
  if (provider === "http") {
    const store = addressOf(String(table["url"]));
    if (store !== null) net.add(store);
  } else if (provider === "disk") {
    const path = table["path"];
    if (typeof path === "string") paths.add(isAbsolute(path) ? path : join(home, path));
  } else if (provider !== "memory") {
    throw new SubletError(
      "config",
      `plugins.cas.provider = ${JSON.stringify(provider)}: a worker can use disk or http`,
    );
  }
  return { net: [...net], read: [...paths], write: [...paths] };
}

/** `host:port` of an http or https URL; null for anything else, such as a socket's path. */
function addressOf(url: string): string | null {
  if (!/^https?:/.test(url) || !URL.canParse(url)) return null;
  const { protocol, hostname, port } = new URL(url);
  return `${hostname}:${port || (protocol === "https:" ? "443" : "80")}`;
}
