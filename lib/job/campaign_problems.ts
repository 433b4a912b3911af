/** @module The mistakes of a campaign's file as lines: the key, the value, the rule and the file. */

import type * as z from "zod";
import { nearest } from "../home/mod.ts";

type Issue = z.core.$ZodIssue;

/** How `path` is written in a TOML file: `metrics[0].name`. */
export function keyPath(path: readonly PropertyKey[]): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else {
      const name = String(part);
      const written = /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name);
      text += text === "" ? written : `.${written}`;
    }
  }
  return text;
}

/** One line for each mistake that `issues` hold, in their order. `known` gives the keys of the table at a path. */
export function problemLines(
  file: string,
  raw: unknown,
  issues: readonly Issue[],
  known: (path: readonly PropertyKey[]) => readonly string[],
): string[] {
  return issues.flatMap((issue) => {
    if (issue.code !== "unrecognized_keys") {
      return [line(file, raw, issue.path, rule(issue, valueAt(raw, issue.path) === undefined))];
    }
    return issue.keys.map((key) => {
      const meant = nearest(key, known(issue.path));
      const hint = meant === null ? "remove it" : `did you mean '${meant}'?`;
      return line(file, raw, [...issue.path, key], `there is no such key; ${hint}`);
    });
  });
}

function line(file: string, raw: unknown, path: readonly PropertyKey[], rule: string): string {
  const value = valueAt(raw, path);
  const written = value === undefined ? "" : ` = ${shown(value)}`;
  return `${keyPath(path) || "the file"}${written}: ${rule} (in ${file})`;
}

function rule(issue: Issue, absent: boolean): string {
  if (issue.code === "custom" || issue.code === "invalid_format") return issue.message;
  if (issue.code === "invalid_key") return issue.issues[0]?.message ?? issue.message;
  if (absent && issue.code === "invalid_type") return `is required (${kindOf(issue.expected)})`;
  if (issue.code === "invalid_type") {
    return issue.expected === "never" ? issue.message : `must be ${kindOf(issue.expected)}`;
  }
  if (issue.code === "invalid_value") {
    if (absent) return `is required: one of ${issue.values.map(quoted).join(", ")}`;
    return issue.message.startsWith("Invalid")
      ? `must be one of ${issue.values.map(quoted).join(", ")}`
      : issue.message;
  }
  if (issue.code === "too_big" && issue.message.startsWith("Too big")) {
    return `must be at most ${issue.maximum}${issue.origin === "array" ? " items" : ""}`;
  }
  return issue.message;
}

function quoted(value: unknown): string {
  return `'${String(value)}'`;
}

const KINDS: Readonly<Record<string, string>> = {
  array: "a list",
  boolean: "true or false",
  int: "a whole number",
  number: "a number",
  object: "a table",
  record: "a table",
  string: "a text",
};

function kindOf(expected: string): string {
  return KINDS[expected] ?? expected;
}

function valueAt(raw: unknown, path: readonly PropertyKey[]): unknown {
  let value = raw;
  for (const part of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) {
      return undefined;
    }
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}
