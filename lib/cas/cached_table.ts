/** @module The table of the `cached` provider. */

import { isAbsolute, join } from "node:path";
import * as z from "zod";
import { SubletError } from "../home/mod.ts";

const path = z.string({ error: "must be a path" }).min(1, "must be a path");

const amount = (unit: string) =>
  z.number({ error: `must be a number of ${unit}` }).nonnegative(`must be a number of ${unit}`);

/** `[plugins.cas]` with `provider = "cached"`. */
export const cachedTable = z.strictObject({
  provider: z.literal("cached"),
  /** The table of any other provider. */
  remote: z.record(z.string(), z.unknown(), {
    error: "must be the table of another provider, such as [plugins.cas.remote]",
  }),
  /** A directory, or the table of a `disk` store. */
  local: z.union(
    [path, z.strictObject({ provider: z.literal("disk").optional(), path: path.optional() })],
    { error: "must be a path" },
  ).optional(),
  evict_after_days: amount("days").optional(),
  local_max_gb: amount("GiB").optional(),
});

/** What {@linkcode cachedTable} gives. */
export type CachedTable = z.output<typeof cachedTable>;

const GIB = 1024 ** 3;

/** How the cache of `table` is kept, in the home `home` over a remote at `where`. Throws `config` when it is that. */
export function cacheSettings(table: CachedTable, home: string, where: string) {
  const { local, evict_after_days: days, local_max_gb: gb } = table;
  const named = (typeof local === "string" ? local : local?.path) ?? "store";
  const root = isAbsolute(named) ? named : join(home, named);
  if (where === `file://${root}`) {
    throw new SubletError(
      "config",
      `plugins.cas.local = ${
        JSON.stringify(root)
      }: this is the remote itself. Give local or remote another path`,
    );
  }
  return {
    path: root,
    where,
    ...(days === undefined ? {} : { evictAfterDays: days }),
    ...(gb === undefined ? {} : { localMaxBytes: gb * GIB }),
  };
}
