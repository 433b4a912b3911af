/** @module The tables of `config.toml` and the rules of their keys. Keys are those of the file. */

import * as z from "zod";
import { addressOf } from "../address.ts";
import { POOL_NAME } from "../pool_name.ts";

function number(rule: string, test: (value: number) => boolean) {
  return z.number({ error: rule }).refine(test, { error: rule });
}

const positive = number("must be a number above 0", (value) => value > 0);
const notNegative = number("must be a number of at least 0", (value) => value >= 0);
const wholeRule = "must be a whole number of at least 0";
const whole = z.number({ error: wholeRule }).refine(
  (value) => Number.isSafeInteger(value) && value >= 0,
  { error: wholeRule },
);
const text = z.string({ error: "must be text" }).min(1, { error: "must not be empty" });
const runner = text.max(200, { error: "must be at most 200 characters" });

const provisioner = z.looseObject({ max: whole }, {
  error: "must be a table with at least max and compute",
});

/** One pool: the capacity of each of its workers. */
export const pool = z.strictObject({
  agents: whole.nullable().default(null),
  evaluations: whole.default(2),
  min_memory_gb: notNegative.nullable().default(null),
  max_load: notNegative.nullable().default(null),
  runners: z.array(runner, { error: "must be a list of texts" }).default([]),
  provisioner: provisioner.nullable().default(null),
}, { error: "must be a table" });

/** The three times of leases, seconds. */
export const timing = z.object({
  renew_seconds: positive.default(10),
  grace_seconds: positive.default(50),
  toleration_seconds: positive.default(300),
});

function only(name: string) {
  return z.literal(name, { error: `this version has only ${JSON.stringify(name)}` }).default(name);
}

/** `[plugins.executor]`. */
export const executor = z.strictObject({
  provider: only("workers"),
  pools: z.record(
    z.string().regex(POOL_NAME, {
      error: "a pool's name is 1 to 64 letters, digits, '.', '_' and '-', the first no sign",
    }),
    pool,
    { error: (issue) => issue.code === "invalid_type" ? "must be a table of pools" : undefined },
  ).default({}),
  ...timing.shape,
  keep_days: notNegative.default(90),
}, { error: "must be a table" });

/** `[plugins.network]` of the provider `https`. */
export const network = z.strictObject({
  provider: only("https"),
  listen: z.string({ error: "must be HOST:PORT" }).refine((value) => addressOf(value) !== null, {
    error: "must be HOST:PORT, such as 127.0.0.1:8443 or [::1]:0",
  }).nullable().default(null),
  tls: z.union([z.literal("proxy"), z.strictObject({ cert: text, key: text })], {
    error: 'must be { cert = "FILE", key = "FILE" } of PEM files, or "proxy"',
  }).nullable().default(null),
  url: z.string({ error: "must be an http or https URL" }).refine(isHttpUrl, {
    error: "must be an http or https URL",
  }).nullable().default(null),
}, { error: "must be a table" });

function isHttpUrl(value: string): boolean {
  return /^https?:\/\/[^/]/.test(value) && URL.canParse(value);
}

function provided(name: string) {
  return z.looseObject({ provider: text.default(name) }, { error: "must be a table" });
}

/** Tables by name, for whoever reads them. */
const tables = z.record(z.string(), z.looseObject({}, { error: "must be a table" }), {
  error: "must be a table of tables",
}).default({});

const countRule = "must be a whole number of at least 1";
const count = z.number({ error: countRule }).refine(
  (value) => Number.isSafeInteger(value) && value >= 1,
  { error: countRule },
);

/** `[limits]`: what the store's HTTP service allows. */
export const limits = z.strictObject({
  max_blob_gb: positive.nullable().default(null),
  token_transfers: count.default(128),
  token_mb_per_second: positive.nullable().default(null),
  token_gb_per_day: positive.nullable().default(null),
  token_uploads: count.default(64),
  token_uploads_gb: positive.default(256),
  upload_hours: positive.default(24),
  stall_seconds: positive.default(30),
}, { error: "must be a table" });

/** The whole of `config.toml`. The tables of `cas` and `secrets` are read by their providers, others by their users. */
export const configFile = z.strictObject({
  plugins: z.strictObject({
    executor: executor.prefault({}),
    network: network.prefault({}),
    cas: provided("disk").prefault({}),
    secrets: provided("local").prefault({}),
  }, { error: "must be a table of tables" }).prefault({}),
  limits: limits.prefault({}),
  storage: z.strictObject({
    min_free_gb: notNegative.default(20),
    sessions_days: notNegative.default(0),
    files_days: notNegative.default(0),
  }, { error: "must be a table" }).prefault({}),
  harness: tables,
  mcp: tables,
}, { error: "must be a table" });

/** What {@linkcode configFile} gives. */
export type ConfigFile = z.output<typeof configFile>;
