/** @module Checks that reports of every kind share. */

import { SubletError } from "../home/mod.ts";

/** The most files of a report. */
export const MAX_FILES = 100_000;
/** Tables within tables of a report. */
const MAX_DEPTH = 6;

/** A table that is read as JSON drops the key `__proto__`, so what it names would vanish: throws `invalid_body`. */
export function checkKeys(value: unknown, depth = 0): void {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return;
  if (!Array.isArray(value) && Object.hasOwn(value, "__proto__")) {
    throw new SubletError("invalid_body", "the report names something __proto__: rename it");
  }
  for (const each of Object.values(value)) checkKeys(each, depth + 1);
}

/** Throws `invalid_body` for more than `most`. */
export function bounded(what: string, count: number, most: number): void {
  if (count <= most) return;
  throw new SubletError(
    "invalid_body",
    `${what}: holds ${count} entries, and at most ${most} are taken`,
  );
}

/** Whether `value` is a JSON object. */
export function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Texts of a database hold no NUL; at most `most` characters of one are kept. */
export function cleanText(text: string, most: number): string {
  const bounded = text.length <= most ? text : `${text.slice(0, most)}…`;
  return bounded.replaceAll("\0", "\uFFFD").toWellFormed();
}
