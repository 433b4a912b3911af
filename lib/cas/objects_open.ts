/** @module Opens the bucket that a table names. What only buckets need is loaded here, when one is used. */

import type * as z from "zod";
import type { Env } from "../home/mod.ts";
import type { Cas } from "./contract.ts";
import type { gcsTable, s3Table } from "./objects_tables.ts";

/** What a bucket gets besides its table. */
export interface BucketContext {
  /** An existing directory for temporary files. Default: the system's. */
  readonly tmp?: string | undefined;
  /** Default: this process's, as far as it may be read. */
  readonly env?: Env | undefined;
  /** Every root to trust, as PEM text. Default: the usual ones. */
  readonly ca?: string | undefined;
  /** Whether what crashes left here is removed. Default: it is. */
  readonly sweeps?: boolean | undefined;
  /** A path of the table as an absolute one. */
  readonly absolute: (path: string) => string;
}

/** Open the bucket of `table`. Throws `config` and `unavailable`. */
export async function openBucket(
  table: z.output<typeof s3Table> | z.output<typeof gcsTable>,
  { tmp, env = environment(), ca, sweeps, absolute }: BucketContext,
): Promise<Cas & AsyncDisposable> {
  const shared = { env, sweeps, ...given("tmp", tmp), ...given("ca", ca) };
  if (table.provider === "s3") {
    const { openS3 } = await import("./s3.ts");
    return await openS3({
      ...shared,
      url: table.url,
      ...given("storageClass", table.storage_class),
      ...given("standardBelow", table.standard_below),
    });
  }
  const { openGcs } = await import("./gcs.ts");
  const file = table.credentials_file;
  return await openGcs({
    ...shared,
    bucket: table.bucket,
    ...given("prefix", table.prefix),
    ...given("storageClass", table.storage_class),
    ...given("project", table.project),
    ...given("credentialsFile", file === undefined ? undefined : absolute(file)),
  });
}

function given<K extends string, V>(name: K, value: V | undefined): { [key in K]?: V } {
  return value === undefined ? {} : { [name]: value } as { [key in K]?: V };
}

/** This process's environment; nothing where it may not be read. */
function environment(): Env {
  return Deno.permissions.querySync({ name: "env" }).state === "granted" ? Deno.env.toObject() : {};
}
