/** @module The keys of `config.toml` that may change while a server runs, and what each may be. */

import { pool } from "./config_schema.ts";
import { SubletError } from "../errors.ts";
import { nearest } from "../nearest.ts";

const PREFIX = "executor.pools.";

/** The keys of a pool that may change while a server runs. */
export const LIVE_POOL_FIELDS = ["agents", "evaluations", "min_memory_gb", "max_load"] as const;
/** One of {@linkcode LIVE_POOL_FIELDS}. */
export type LivePoolField = (typeof LIVE_POOL_FIELDS)[number];

/** A live key of a pool: `executor.pools.POOL.FIELD`. */
export interface LiveKey {
  readonly key: string;
  readonly pool: string;
  readonly field: LivePoolField;
}

/** Every live key of these pools, by pool and then as in {@linkcode LIVE_POOL_FIELDS}. */
export function liveKeys(pools: Iterable<string>): LiveKey[] {
  return [...pools].sort().flatMap((name) =>
    LIVE_POOL_FIELDS.map((field) => ({ key: `${PREFIX}${name}.${field}`, pool: name, field }))
  );
}

/** The live key that `text` names. Throws `not_found`, naming the nearest one. */
export function liveKey(text: string, pools: Iterable<string>): LiveKey {
  const keys = liveKeys(pools);
  const found = keys.find(({ key }) => key === text);
  if (found !== undefined) return found;
  const near = nearest(text, keys.map(({ key }) => key));
  throw new SubletError(
    "not_found",
    `${text} is no key that may change while the server runs: ` +
      (near === null
        ? `these may: ${keys.map(({ key }) => key).join(", ")}`
        : `did you mean ${near}? \`sublet limits\` lists them`),
  );
}

/** `value` as the config's rule for `field` takes it. Throws `invalid_request` with the rule. */
export function liveValue({ key, field }: LiveKey, value: unknown): number | null {
  const checked = pool.shape[field].safeParse(value === undefined ? NaN : value);
  if (checked.success) return checked.data;
  const rule = checked.error.issues[0]?.message ?? "is refused";
  throw new SubletError("invalid_request", `${key} = ${JSON.stringify(value)}: ${rule}`);
}

/** What `field` of a pool is when its config does not say. */
export function liveDefault(field: LivePoolField): number | null {
  return pool.parse({})[field];
}
