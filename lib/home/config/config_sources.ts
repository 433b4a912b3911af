/** @module Where a configuration comes from: `config.toml`, then the environment on top of it. */

import { parse, TomlError } from "smol-toml";
import { messageOf } from "../errors.ts";
import { type KeyPath } from "./config_error.ts";
import type { Env } from "../paths.ts";
import { EnvText } from "./zod_walk.ts";

/** A table of tables and values, without a prototype. */
export type Table = Record<string, unknown>;

/** What the sources came to, merged. */
export interface Sources {
  readonly table: Table;
  /** The variable or the option that set the value at a dotted path. */
  readonly origins: ReadonlyMap<string, string>;
  readonly problems: readonly string[];
}

/** A value that replaces what the file and the environment say, such as that of `--listen`. */
export interface Override {
  readonly path: KeyPath;
  readonly value: unknown;
  /** Its name, for errors. */
  readonly origin: string;
}

/** Read `file`, which may be missing, and merge the `SUBLET_*__*` variables and `overrides` over it. */
export async function readSources(
  file: string,
  env: Env,
  overrides: readonly Override[],
): Promise<Sources> {
  const problems: string[] = [];
  const origins = new Map<string, string>();
  const table = await readToml(file, problems);
  for (const override of [...fromEnv(env, problems), ...overrides]) {
    put(table, override, origins);
  }
  return { table, origins, problems };
}

async function readToml(file: string, problems: string[]): Promise<Table> {
  try {
    return bareTable(parse(await Deno.readTextFile(file)));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return Object.create(null);
    if (error instanceof TomlError) {
      const [first] = error.message.split("\n");
      problems.push(`line ${error.line}, column ${error.column}: ${first} (in ${file})`);
    } else {
      problems.push(`cannot be read: ${messageOf(error)} (in ${file})`);
    }
    return Object.create(null);
  }
}

/** A copy in which no table has a prototype, so that a key `__proto__` is a key like any other. */
function bareTable(value: object): Table {
  const table: Table = Object.create(null);
  for (const [key, one] of Object.entries(value)) {
    table[key] = isTable(one) ? bareTable(one) : one;
  }
  return table;
}

function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value) &&
    !(value instanceof Date) && !(value instanceof EnvText);
}

/** Tables that a variable without `__` may set as a whole, as JSON. */
const WHOLE = ["SUBLET_PLUGINS", "SUBLET_STORAGE"];

/** The variables that configure: `SUBLET_PLUGINS` as one JSON object, and names with `__` between the keys. */
function fromEnv(env: Env, problems: string[]): Override[] {
  const names = Object.keys(env).filter((name) =>
    WHOLE.includes(name) || (name.startsWith("SUBLET_") && name.includes("__"))
  );
  // Shorter paths first: a variable for one key wins over one that sets its whole table.
  const depth = (name: string) => name.split("__").length;
  names.sort((a, b) => depth(a) - depth(b) || (a < b ? -1 : 1));
  return names.flatMap((name): Override[] => {
    const text = env[name] ?? "";
    const path = name.slice("SUBLET_".length).toLowerCase().split("__");
    if (path.includes("")) {
      problems.push(`${name}: has an empty key between its '__' (in the environment)`);
      return [];
    }
    if (!text.trimStart().startsWith("{") && !WHOLE.includes(name)) {
      return [{ path, value: new EnvText(text), origin: name }];
    }
    try {
      const value: unknown = JSON.parse(text);
      if (!isTable(value)) throw new Error("it is no table");
      return [{ path, value: bareTable(value), origin: name }];
    } catch (error) {
      problems.push(`${name}: must be one JSON object: ${messageOf(error)} (in the environment)`);
      return [];
    }
  });
}

function put(table: Table, { path, value, origin }: Override, origins: Map<string, string>): void {
  const real: string[] = [];
  let at = table;
  path.forEach((name, index) => {
    const key = keyLike(at, name);
    real.push(key);
    if (index < path.length - 1) {
      const next = at[key];
      if (!isTable(next)) origins.set(real.join("\0"), origin);
      at = isTable(next) ? next : at[key] = Object.create(null) as Table;
    } else {
      at[key] = merge(at[key], value, real, origin, origins);
    }
  });
}

/** The key of `table` that `name` means: variables are upper case, and have no `-`. */
function keyLike(table: Table, name: string): string {
  if (name in table) return name;
  const plain = (key: string) => key.toLowerCase().replaceAll("-", "_");
  return Object.keys(table).find((key) => plain(key) === plain(name)) ?? name;
}

function merge(
  old: unknown,
  value: unknown,
  path: KeyPath,
  origin: string,
  origins: Map<string, string>,
): unknown {
  if (!isTable(value) || !isTable(old)) {
    origins.set(path.join("\0"), origin);
    return value;
  }
  for (const [key, one] of Object.entries(value)) {
    old[key] = merge(old[key], one, [...path, key], origin, origins);
  }
  return old;
}

/** Where the value at `path` comes from, for an error: `in FILE`, or the variable or option that set it. */
export function originIn(origins: ReadonlyMap<string, string>, file: string) {
  return (path: KeyPath): string => {
    for (let length = path.length; length > 0; length--) {
      const origin = origins.get(path.slice(0, length).join("\0"));
      if (origin?.startsWith("SUBLET_")) return `in the environment variable ${origin}`;
      if (origin !== undefined) return `in ${origin}`;
    }
    return `in ${file}`;
  };
}
