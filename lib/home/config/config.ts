/** @module The configuration of a home: `config.toml`, with variables of the environment over it. */

import { resolve } from "node:path";
import { type Address, addressOf, parseAddress } from "../address.ts";
import { listenReason, type TlsSetting } from "../listen.ts";
import { ConfigError, type Origin, problemLine, problemsOf, valueAt } from "./config_error.ts";
import { type ConfigFile, configFile, pool as poolTable, timing } from "./config_schema.ts";
import { originIn, type Override, readSources, type Table } from "./config_sources.ts";
import { type Env, homePaths } from "../paths.ts";
import { coerce } from "./zod_walk.ts";

/** What each worker of a pool takes on. */
export interface Pool {
  /** Agent sessions at once. Null: no bound. */
  readonly agents: number | null;
  /** Evaluations at once. */
  readonly evaluations: number;
  /** No lease while its host has less memory available, in 10^9 bytes. */
  readonly minMemoryGb: number | null;
  /** No lease while its host's 1-minute load per CPU is above this. */
  readonly maxLoad: number | null;
  /** Names of the evaluators that its workers bring. Empty: not known before they register. */
  readonly runners: readonly string[];
  /** How its workers are started; read by its provider. */
  readonly provisioner: Readonly<Record<string, unknown>> & { readonly max: number } | null;
}

/** Everything that a home's `config.toml` and environment say. */
export interface Config {
  readonly executor: {
    /** Seconds between a worker's heartbeats. */
    readonly renewSeconds: number;
    /** Seconds of silence after which a worker counts as unreachable. */
    readonly graceSeconds: number;
    /** Seconds of silence after which its leases expire. */
    readonly tolerationSeconds: number;
    /** Days that ended jobs, and workers that are gone, are kept. Null: for ever. */
    readonly keepDays: number | null;
    /** By name; `serve`, the pool of the server's own worker, is always there. */
    readonly pools: Readonly<Record<string, Pool>>;
  };
  readonly network: {
    readonly provider: "https";
    /** Null: only the home's Unix socket. */
    readonly listen: Address | null;
    readonly tls: TlsSetting;
    /** Where machines that the server starts dial it. */
    readonly url: string | null;
  };
  /** For the CAS's provider to read, as it stands in the file. */
  readonly cas: Readonly<Record<string, unknown>> & { readonly provider: string };
  /** For the secrets' provider to read. */
  readonly secrets: Readonly<Record<string, unknown>> & { readonly provider: string };
  /** What the store's HTTP service allows. */
  readonly limits: {
    /** Bytes of the largest blob. Null: what fits the disk. */
    readonly maxBlobBytes: number | null;
    /** Transfers of one token at once. */
    readonly tokenTransfers: number;
    /** Bytes that one token may move in a second, up and down. Null: no bound. */
    readonly tokenBytesPerSecond: number | null;
    /** Bytes that one token may upload in a day. Null: no bound. */
    readonly tokenBytesPerDay: number | null;
    /** Uploads in parts that one token may have open, and the bytes of their blobs. */
    readonly tokenUploads: number;
    readonly tokenUploadsBytes: number;
    /** Hours that an upload is kept without a part. */
    readonly uploadHours: number;
    /** Seconds without a byte after which an upload ends. */
    readonly stallSeconds: number;
  };
  readonly storage: {
    /** 2^30 bytes that are kept free on the home's disk. */
    readonly minFreeGb: number;
    /** Days after an agent's end that its session's file, and that files of agents and evaluations are kept. Null: for ever. */
    readonly sessionsDays: number | null;
    readonly filesDays: number | null;
  };
  /** `[harness.NAME]` and `[mcp.NAME]`, for agents, as they stand in the file. */
  readonly harness: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly mcp: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** What a command line sets over the file and the environment. */
export interface ConfigOverrides {
  /** The text of `--listen`. */
  readonly listen?: string;
}

/**
 * The configuration of the home at `home`. A missing file is an empty one. Throws {@linkcode ConfigError} with every
 * mistake at once.
 */
export async function loadConfig(
  home: string,
  env: Env = Deno.env.toObject(),
  overrides: ConfigOverrides = {},
): Promise<Config> {
  const { root, config: file } = homePaths(home);
  const sources = await readSources(file, env, overridesOf(overrides));
  const origin = originIn(sources.origins, file);
  const table = coerce(configFile, sources.table) as Table;
  const problems = [...sources.problems, ...foreignProviders(table, origin)];
  const parsed = configFile.safeParse(table);
  if (!parsed.success) problems.push(...problemsOf(parsed.error, configFile, table, [], origin));
  problems.push(...crossProblems(table, origin), ...await tlsFileProblems(table, root, origin));
  if (problems.length > 0 || !parsed.success) throw new ConfigError(problems);
  return shape(parsed.data, root);
}

function overridesOf({ listen }: ConfigOverrides): Override[] {
  if (listen === undefined) return [];
  return [{ path: ["plugins", "network", "listen"], value: listen, origin: "--listen" }];
}

/**
 * One line for each table of a provider that this version lacks; the table is emptied, since its other keys are that
 * provider's.
 */
function foreignProviders(table: Table, origin: Origin): string[] {
  const ours = { executor: "workers", network: "https" };
  return Object.entries(ours).flatMap(([name, only]) => {
    const path = ["plugins", name, "provider"];
    const provider = valueAt(table, path);
    if (typeof provider !== "string" || provider === only) return [];
    const plugins = table.plugins as Table;
    plugins[name] = {};
    const rule = `this version has only ${JSON.stringify(only)}`;
    return [problemLine(path, provider, rule, origin(path))];
  });
}

/** Rules between keys, each looked at when its own keys are sound. */
function crossProblems(table: Table, origin: Origin): string[] {
  return [
    ...timingProblems(table, origin),
    ...runnerProblems(table, origin),
    ...listenProblems(table, origin),
  ];
}

function timingProblems(table: Table, origin: Origin): string[] {
  const path = ["plugins", "executor"];
  const read = timing.safeParse(valueAt(table, path) ?? {});
  if (!read.success) return [];
  const { renew_seconds: renew, grace_seconds: grace, toleration_seconds: toleration } = read.data;
  if (renew < grace && grace < toleration - 2 * renew) return [];
  const where = ["renew_seconds", "grace_seconds", "toleration_seconds"].map((key) =>
    origin([...path, key])
  );
  return [
    `plugins.executor: renew_seconds = ${renew}, grace_seconds = ${grace}, toleration_seconds = ` +
    `${toleration}: must be renew_seconds < grace_seconds < toleration_seconds - 2 * renew_seconds ` +
    `(${[...new Set(where)].join(", ")})`,
  ];
}

function runnerProblems(table: Table, origin: Origin): string[] {
  const pools = valueAt(table, ["plugins", "executor", "pools"]);
  if (typeof pools !== "object" || pools === null) return [];
  return Object.entries(pools).flatMap(([name, value]) => {
    const read = poolTable.safeParse(value);
    if (!read.success || read.data.provisioner === null) return [];
    if (read.data.evaluations === 0 || read.data.runners.length > 0) return [];
    const path = ["plugins", "executor", "pools", name, "runners"];
    const rule =
      'name the evaluators that its workers bring, such as runners = ["process"], since ' +
      "it has a provisioner and takes evaluations";
    return [problemLine(path, read.data.runners, rule, origin(path))];
  });
}

function listenProblems(table: Table, origin: Origin): string[] {
  const path = ["plugins", "network", "listen"];
  const listen = valueAt(table, path);
  const tls = valueAt(table, ["plugins", "network", "tls"]);
  const address = typeof listen === "string" ? addressOf(listen) : null;
  // Whatever is wrong with either of the two has a line of its own.
  if (address === null || (tls !== undefined && tls !== null)) return [];
  const reason = listenReason(address, null);
  return reason === null ? [] : [problemLine(path, listen, reason, origin(path))];
}

async function tlsFileProblems(table: Table, root: string, origin: Origin): Promise<string[]> {
  const problems: string[] = [];
  for (const name of ["cert", "key"]) {
    const path = ["plugins", "network", "tls", name];
    const file = valueAt(table, path);
    if (typeof file !== "string" || file === "") continue;
    const info = await Deno.stat(resolve(root, file)).catch(() => null);
    if (info?.isFile) continue;
    problems.push(problemLine(path, file, "must be a file that exists", origin(path)));
  }
  return problems;
}

function shape(file: ConfigFile, root: string): Config {
  const { executor, network, cas, secrets } = file.plugins;
  const pools = { serve: poolTable.parse({}), ...executor.pools };
  return {
    executor: {
      renewSeconds: executor.renew_seconds,
      graceSeconds: executor.grace_seconds,
      tolerationSeconds: executor.toleration_seconds,
      keepDays: executor.keep_days === 0 ? null : executor.keep_days,
      pools: Object.fromEntries(
        Object.entries(pools).map(([name, one]) => [name, {
          agents: one.agents,
          evaluations: one.evaluations,
          minMemoryGb: one.min_memory_gb,
          maxLoad: one.max_load,
          runners: one.runners,
          provisioner: one.provisioner,
        }]),
      ),
    },
    network: {
      provider: "https",
      listen: network.listen === null ? null : parseAddress(network.listen),
      tls: tlsSetting(network.tls, root),
      url: network.url,
    },
    cas,
    secrets,
    limits: limitsOf(file.limits),
    storage: {
      minFreeGb: file.storage.min_free_gb,
      sessionsDays: file.storage.sessions_days === 0 ? null : file.storage.sessions_days,
      filesDays: file.storage.files_days === 0 ? null : file.storage.files_days,
    },
    harness: file.harness,
    mcp: file.mcp,
  };
}

/** Paths in the file count from the home. */
function tlsSetting(tls: TlsSetting, root: string): TlsSetting {
  if (tls === null || tls === "proxy") return tls;
  return { cert: resolve(root, tls.cert), key: resolve(root, tls.key) };
}

function limitsOf(table: ConfigFile["limits"]): Config["limits"] {
  const bytes = (value: number | null, unit: number) => value === null ? null : value * unit;
  return {
    maxBlobBytes: bytes(table.max_blob_gb, 2 ** 30),
    tokenTransfers: table.token_transfers,
    tokenBytesPerSecond: bytes(table.token_mb_per_second, 1e6),
    tokenBytesPerDay: bytes(table.token_gb_per_day, 2 ** 30),
    tokenUploads: table.token_uploads,
    tokenUploadsBytes: table.token_uploads_gb * 2 ** 30,
    uploadHours: table.upload_hours,
    stallSeconds: table.stall_seconds,
  };
}
