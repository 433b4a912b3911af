/** @module The log: one line of JSON an event, on standard error. */

import type { Log } from "./ports.ts";
import { messageOf, SubletError } from "./errors.ts";

/** Longest text of one field; the rest is cut. */
const MAX_TEXT = 8_192;

/** One event as a line of JSON: `at` (ISO 8601 UTC), `event`, then its fields. It never throws. */
export function logLine(
  at: number,
  event: string,
  fields: Readonly<Record<string, unknown>> = {},
): string {
  try {
    return JSON.stringify({ at: new Date(at).toISOString(), event, ...fields }, plain) + "\n";
  } catch (error) {
    return JSON.stringify({ event, log_error: messageOf(error) }) + "\n";
  }
}

/** Errors by code and message, big integers as text, long text cut, bytes by their length. */
function plain(_key: string, value: unknown): unknown {
  if (value instanceof Error) {
    const code = value instanceof SubletError ? { code: value.code } : {};
    const cause = value.cause === undefined ? {} : { cause: value.cause };
    return { ...code, message: value.message, ...cause };
  }
  if (typeof value === "bigint") return String(value);
  if (typeof value === "string" && value.length > MAX_TEXT) return value.slice(0, MAX_TEXT) + "…";
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  return value;
}

/** Writes every event to standard error, at once. A line that cannot be written (a closed pipe) is dropped. */
export const stderrLog: Log = {
  event(event, fields) {
    const line = new TextEncoder().encode(logLine(Date.now(), event, fields));
    try {
      for (let done = 0; done < line.length;) done += Deno.stderr.writeSync(line.subarray(done));
    } catch {
      // Nobody reads it, or the disk behind it is full: losing the line is better than losing the process.
    }
  },
};

/** Drops every event. */
export const nullLog: Log = { event() {} };
