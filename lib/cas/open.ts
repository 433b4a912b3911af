/** @module Opens the store that `[plugins.cas]` names. */

import { isAbsolute, join } from "node:path";
import * as z from "zod";
import { parseTable } from "../home/config/mod.ts";
import { type Env, type Log, nearest, stderrLog, SubletError, systemClock } from "../home/mod.ts";
import type { HttpClient } from "../net/mod.ts";
import { openCached } from "./cached.ts";
import { cachedTable, cacheSettings } from "./cached_table.ts";
import type { Cas } from "./contract.ts";
import { openDisk } from "./disk.ts";
import { sweep } from "./disk_root.ts";
import { openHttpCas } from "./http_cas.ts";
import { openMemory } from "./memory.ts";
import { openSqliteCas } from "./sqlite.ts";
import { openBucket } from "./objects_open.ts";
import type { Reach } from "./objects_reach.ts";
import { bucketWhere, gcsTable, s3Table } from "./objects_tables.ts";

/** What a provider gets besides its table. */
export interface CasContext {
  /** The home's directory. */
  readonly home: string;
  /** An existing directory for temporary files. Default: the system's. */
  readonly tmp?: string;
  /** A client of the server at a URL, which sends this machine's credential. */
  readonly client: (url: string) => HttpClient | Promise<HttpClient>;
  /** Where failures of what runs in the background go. Default: standard error. */
  readonly log?: Log;
  /** Where a bucket's credentials and endpoint are looked up. Default: this process's environment. */
  readonly env?: Env;
  /** Every root to trust, as PEM text, for a thread that may not read them. Default: the usual ones. */
  readonly ca?: string;
  /** Whether what crashes left is removed when the store opens. Default: it is. A collection does so itself, and counts it. */
  readonly sweeps?: boolean;
}

const provider = <T extends string>(name: T) => z.literal(name);

const path = z.string({ error: "must be a path" }).min(1, "must be a path").optional();

const disk = z.strictObject({ provider: provider("disk"), path });

const sqlite = z.strictObject({ provider: provider("sqlite"), path });

const http = z.strictObject({
  provider: provider("http"),
  url: z.string({ error: "must be an http or https URL" }).refine(
    (url) => /^https?:\/\/[^/]/.test(url) && URL.canParse(url),
    "must be an http or https URL",
  ),
});

const memory = z.strictObject({ provider: provider("memory") });

/** The table `[plugins.cas]`, whichever provider it names. */
export const casTable = z.discriminatedUnion("provider", [
  disk,
  sqlite,
  http,
  memory,
  cachedTable,
  s3Table,
  gcsTable,
]);

/** A table that {@linkcode casTable} takes. */
export type CasTable = z.output<typeof casTable>;

const SCHEMAS = {
  disk,
  sqlite,
  http,
  memory,
  cached: cachedTable,
  s3: s3Table,
  gcs: gcsTable,
} as const;
const LOCATION = "plugins.cas";

/** Streams that wait in a file to be sent, which takes its time, are of a crash after so many milliseconds. */
const SPOOLED_MS = 24 * 60 * 60 * 1000;

/** The file of a `sqlite` store, unless its table has another. */
const SQLITE_FILE = "store.sqlite";

/** `table`, read by its provider's schema. Throws `config`, one line for each mistake. */
function read(
  table: Readonly<Record<string, unknown>>,
  home: string,
  location = LOCATION,
): CasTable {
  const file = join(home, "config.toml");
  const name = table["provider"] ?? "disk";
  if (typeof name === "string" && Object.hasOwn(SCHEMAS, name)) {
    const schema: z.ZodType<CasTable> = SCHEMAS[name as keyof typeof SCHEMAS];
    return parseTable(schema, { ...table, provider: name }, location, file);
  }
  const known = Object.keys(SCHEMAS);
  const near = typeof name === "string" ? nearest(name, known) : null;
  const hint = near === null ? "" : ` Did you mean ${near}?`;
  throw new SubletError(
    "config",
    `${location}.provider = ${JSON.stringify(name)}: there is no such provider; known: ${
      known.join(", ")
    }.${hint} (in ${file})`,
  );
}

/** `path`, or else `otherwise`, in the home. */
function beneath(home: string, path: string | undefined, otherwise: string): string {
  const found = path ?? otherwise;
  return isAbsolute(found) ? found : join(home, found);
}

/**
 * The one spelling of where the blobs of the store are that `table` names: what a cache over it records. Throws
 * `config` for a mistake in it.
 */
export function whereIs(
  table: Readonly<Record<string, unknown>>,
  home: string,
  location = LOCATION,
): string {
  const found = read(table, home, location);
  switch (found.provider) {
    case "disk":
      return `file://${beneath(home, found.path, "store")}`;
    case "sqlite":
      return `sqlite://${beneath(home, found.path, SQLITE_FILE)}`;
    case "http":
      return found.url.replace(/\/+$/, "");
    case "memory":
      return "memory:";
    case "cached":
      return whereIs(found.remote, home, `${location}.remote`);
    case "s3":
    case "gcs":
      return bucketWhere(found);
  }
}

/**
 * Open the store that `table`, the table `[plugins.cas]` of the home's `config.toml`, names. Throws `config` for a
 * mistake in it, with one line each, and `unavailable` when the store cannot be opened. One with a method
 * `Symbol.asyncDispose` wants to be disposed.
 */
export async function openCas(
  table: Readonly<Record<string, unknown>>,
  context: CasContext,
  location = LOCATION,
): Promise<Cas> {
  const { home, sweeps = true, log = stderrLog } = context;
  const found = read(table, home, location);
  // A store within another has its temporary files in the same place.
  if (sweeps && location === LOCATION) await sweepSpooled(context.tmp, log);
  switch (found.provider) {
    case "disk":
      return await openDisk({ path: beneath(home, found.path, "store"), sweeps });
    case "sqlite":
      return await openSqliteCas({ path: beneath(home, found.path, SQLITE_FILE), sweeps });
    case "http": {
      const client = await context.client(found.url);
      const tmp = context.tmp === undefined ? {} : { tmp: context.tmp };
      return openHttpCas(client, { ...tmp, ownsClient: true });
    }
    case "memory":
      return openMemory();
    case "cached": {
      const nested = `${location}.remote`;
      const settings = cacheSettings(found, home, whereIs(found.remote, home, nested));
      const remote = await openCas(found.remote, context, nested);
      const upkeep = { clock: systemClock, log, sweeps, upkeep: true };
      return await openCached({ ...settings, ...upkeep, remote });
    }
    case "s3":
    case "gcs": {
      const { tmp, env, ca } = context;
      const absolute = (path: string) => beneath(home, path, "");
      return await openBucket(found, { tmp, env, ca, sweeps, absolute });
    }
  }
}

/** Remove what crashes left in `tmp` of streams on their way to a store or a server. */
async function sweepSpooled(tmp: string | undefined, log: Log): Promise<void> {
  if (tmp === undefined) return;
  try {
    await sweep(tmp, SPOOLED_MS, { isTemporary: (name) => /\.(spool|frame)$/.test(name) });
  } catch (error) {
    // The store can be used all the same.
    log.event("cas.not_swept", { error });
  }
}

/**
 * What a process must be allowed, besides the home, to use the store that `table` names, when that is a bucket; null
 * for every other. Throws `config`.
 */
export async function bucketReach(
  table: Readonly<Record<string, unknown>>,
  home: string,
  env: Env,
  location = LOCATION,
): Promise<Reach | null> {
  const found = read(table, home, location);
  if (found.provider === "cached") {
    return await bucketReach(found.remote, home, env, `${location}.remote`);
  }
  if (found.provider !== "s3" && found.provider !== "gcs") return null;
  const { reachOf } = await import("./objects_reach.ts");
  return await reachOf(found, env, (path) => beneath(home, path, ""));
}
