/** @module The mistakes of a configuration, each one line that names the key, the value, the rule and where it is. */

import type * as z from "zod";
import { SubletError } from "../errors.ts";
import { nearest } from "../nearest.ts";
import { keysAt } from "./zod_walk.ts";

/** Every mistake of a configuration at once: its message has one line each. */
export class ConfigError extends SubletError {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super("config", problems.join("\n"));
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** A place in a configuration. */
export type KeyPath = readonly string[];

/** Where the value at a place comes from: a file's path, or a variable's name. */
export type Origin = (path: KeyPath) => string;

const PLAIN_KEY = /^[A-Za-z0-9_-]+$/;

/** `path` with dots, as TOML writes it. */
export function dotted(path: KeyPath): string {
  return path.map((key) => PLAIN_KEY.test(key) ? key : JSON.stringify(key)).join(".");
}

/** One mistake as a line. `value` undefined: the key is missing. */
export function problemLine(path: KeyPath, value: unknown, rule: string, origin: string): string {
  const shown = value === undefined ? "" : ` = ${show(value)}`;
  return `${dotted(path)}${shown}: ${rule} (${origin})`;
}

function show(value: unknown): string {
  if (Array.isArray(value) && value.some((one) => typeof one === "object")) return "[…]";
  if (typeof value === "number") return String(value);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value instanceof Date ? value.toISOString() : "{…}";
  }
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 100 ? text.slice(0, 100) + "…" : text;
}

/**
 * The lines for what is wrong with `table`, which is at `location`. A key that the schema does not have comes with the
 * nearest that it has.
 */
export function problemsOf(
  error: z.ZodError,
  schema: z.ZodType,
  table: unknown,
  location: KeyPath,
  origin: Origin,
): string[] {
  return error.issues.flatMap((issue) => {
    const inside = issue.path.map(String);
    const path = [...location, ...inside];
    if (issue.code === "unrecognized_keys") {
      const known = keysAt(schema, inside);
      return issue.keys.map((key) => {
        const line = unknownKey(key, known);
        const value = valueAt(table, [...inside, key]);
        return problemLine([...path, key], value, line, origin([...path, key]));
      });
    }
    const inner = issue.code === "invalid_key" ? issue.issues[0]?.message : undefined;
    return problemLine(path, valueAt(table, inside), inner ?? issue.message, origin(path));
  });
}

function unknownKey(key: string, known: readonly string[]): string {
  const near = nearest(key, known);
  if (near !== null) return `there is no such key; did you mean ${near}?`;
  return `there is no such key; known here: ${[...known].sort().join(", ")}`;
}

/** What is at `path` in nested tables, or undefined. */
export function valueAt(table: unknown, path: KeyPath): unknown {
  let value = table;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/**
 * `table`, which is at the dotted `location` of the file `file`, as `schema` reads it. For the tables of plugins, which
 * their providers read. Throws {@linkcode ConfigError}.
 */
export function parseTable<T>(
  schema: z.ZodType<T>,
  table: unknown,
  location: string,
  file: string,
): T {
  const result = schema.safeParse(table);
  if (result.success) return result.data;
  throw new ConfigError(
    problemsOf(result.error, schema, table, location.split("."), () => `in ${file}`),
  );
}
