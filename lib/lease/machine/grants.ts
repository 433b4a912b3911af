/** @module What a worker may do beside its supervisor: dial its server and its store, and use its home. */

import { dirname, isAbsolute, join } from "node:path";
import type { BucketReach } from "../../cas/mod.ts";
import { type Env, SubletError } from "../../home/mod.ts";

/** The permissions of the Web Worker. */
export interface Grants {
  /** `host:port` each. */
  readonly net: string[];
  /** Paths of sockets to dial. */
  readonly sockets: string[];
  readonly read: string[];
  readonly write: string[];
}

/** What a store in a bucket takes; null for every other. Throws `config`. */
export async function reachOf(
  table: Readonly<Record<string, unknown>>,
  home: string,
  env: Env,
): Promise<BucketReach | null> {
  const { provider, remote } = table;
  const names = [provider, isTable(remote) ? remote["provider"] : null];
  if (!names.some((name) => name === "s3" || name === "gcs")) return null;
  // Loaded for buckets alone: a supervisor stays small.
  const { bucketReach } = await import("../../cas/mod.ts");
  return await bucketReach(table, home, env);
}

/**
 * The grants of a worker of `server` at `home` whose store is `[plugins.cas]`'s `table`. Throws `config` for a store
 * that nobody knows the needs of.
 */
export function grantsOf(
  server: string,
  home: string,
  table: Readonly<Record<string, unknown>>,
  reach: BucketReach | null = null,
): Grants {
  const net = new Set<string>(reach?.net);
  const paths = new Set([home]);
  const sockets: string[] = [];
  const address = addressOf(server);
  if (address === null) sockets.push(server.replace(/^unix:/, ""));
  else net.add(address);
  for (const path of sockets) paths.add(path);
  addStore(table, home, net, paths);
  const read = new Set([...paths, ...reach?.read ?? []]);
  return { net: [...net], sockets, read: [...read], write: [...paths] };
}

/** Add what the store of `table` needs. */
function addStore(
  table: Readonly<Record<string, unknown>>,
  home: string,
  net: Set<string>,
  paths: Set<string>,
): void {
  const add = (path: unknown, place = (path: string) => path) => {
    if (typeof path === "string") paths.add(place(isAbsolute(path) ? path : join(home, path)));
  };
  const { path, remote, local } = table;
  switch (table["provider"] ?? "disk") {
    case "memory":
    case "s3":
    case "gcs":
      return;
    case "disk":
      return add(path);
    case "sqlite":
      // SQLite keeps files beside its own.
      return add(path, dirname);
    case "http": {
      const store = addressOf(String(table["url"]));
      if (store !== null) net.add(store);
      return;
    }
    case "cached":
      add(isTable(local) ? local["path"] : local);
      if (isTable(remote)) return addStore(remote, home, net, paths);
  }
  throw new SubletError(
    "config",
    `plugins.cas.provider = ${
      JSON.stringify(table["provider"])
    }: a worker can use disk, sqlite, http, s3 or gcs, or cached over one of them`,
  );
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** `host:port` of an http or https URL; null for anything else, such as a socket's path. */
function addressOf(url: string): string | null {
  if (!/^https?:/.test(url) || !URL.canParse(url)) return null;
  const { protocol, hostname, port } = new URL(url);
  return `${hostname}:${port || (protocol === "https:" ? "443" : "80")}`;
}
