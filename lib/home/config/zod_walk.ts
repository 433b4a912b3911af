/** @module Looking into a zod schema: the keys of a table in it, and text read as the type that it expects. */

import * as z from "zod";

/** A text of the environment, whose type only the schema knows. */
export class EnvText {
  constructor(readonly text: string) {}
}

/** `schema` without its defaults, and without optional and nullable; of alternatives the table, if there is one. */
function bare(schema: z.core.$ZodType): z.core.$ZodType {
  if (
    schema instanceof z.ZodDefault || schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable || schema instanceof z.ZodPrefault
  ) return bare(schema.def.innerType);
  if (schema instanceof z.ZodPipe) return bare(schema.def.in);
  if (schema instanceof z.ZodUnion) {
    return schema.def.options.map(bare).find((one) => one instanceof z.ZodObject) ?? schema;
  }
  return schema;
}

/** The schema of the key `key` of a table, or null when the table says nothing of it. */
function child(schema: z.core.$ZodType, key: string): z.core.$ZodType | null {
  const table = bare(schema);
  if (table instanceof z.ZodObject) {
    return Object.hasOwn(table.shape, key) ? table.shape[key] ?? null : table.def.catchall ?? null;
  }
  if (table instanceof z.ZodRecord) return table.def.valueType;
  return null;
}

/** The keys that the table at `path` of `schema` knows. */
export function keysAt(schema: z.core.$ZodType, path: readonly string[]): string[] {
  let at: z.core.$ZodType | null = schema;
  for (const key of path) at = at === null ? null : child(at, key);
  const table = at === null ? null : bare(at);
  return table instanceof z.ZodObject ? Object.keys(table.shape) : [];
}

/** `value` with each {@linkcode EnvText} read as the type that `schema` has at its place. */
export function coerce(schema: z.core.$ZodType | null, value: unknown): unknown {
  if (value instanceof EnvText) return read(schema === null ? null : schema, value.text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if (value instanceof Date) return value;
  const table: Record<string, unknown> = Object.create(null);
  for (const [key, one] of Object.entries(value)) {
    table[key] = coerce(schema === null ? null : child(schema, key), one);
  }
  return table;
}

function read(schema: z.core.$ZodType | null, text: string): unknown {
  const kind = schema === null ? null : bare(schema);
  if (kind instanceof z.ZodString) {
    return text === "null" && accepts(schema, null) ? null : text;
  }
  const parsed = fromJson(text);
  if (kind instanceof z.ZodArray && !Array.isArray(parsed)) {
    return text === "" ? [] : text.split(",").map((part) => part.trim());
  }
  return parsed === undefined ? text : parsed;
}

function accepts(schema: z.core.$ZodType | null, value: unknown): boolean {
  return schema instanceof z.ZodType && schema.safeParse(value).success;
}

function fromJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
