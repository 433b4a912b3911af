/** @module Whole lines of a session as text: a line that is not whole yet waits for its rest. */

import { sessionLines, type StreamChunk } from "../job/mod.ts";

/** A longer line is passed over, bytes: a tool's result can be large, and is not shown anyway. */
const MAX_LINE = 8 * 1024 * 1024;
const NEWLINE = 10;

/** Text of a session. */
export interface SessionText {
  readonly text: string;
  /** The byte at which to go on. */
  readonly next: number;
  readonly over: boolean;
}

/** The text of the whole lines of `first`; more is read (`read`) while not even one is whole. */
export async function textOf(
  first: StreamChunk,
  format: string | null,
  read: (from: number) => Promise<StreamChunk>,
): Promise<SessionText> {
  const parts: Uint8Array[] = [first.bytes];
  let length = first.bytes.length;
  let { over } = first;
  while (parts.every((part) => !part.includes(NEWLINE)) && !over && length <= MAX_LINE) {
    const more = await read(first.from + length);
    // Not yet there, or not kept.
    if (more.bytes.length === 0 || more.from !== first.from + length) break;
    parts.push(more.bytes);
    length += more.bytes.length;
    over = more.over;
  }
  const whole = concat(parts, length);
  const end = endOf(whole, over);
  if (end === null) return { text: "", next: first.from, over: false };
  const lines = new TextDecoder().decode(whole.subarray(0, end)).split("\n");
  const said = lines.filter((line) => line !== "").flatMap((line) => sessionLines(format, line));
  const text = said.length === 0 ? "" : said.join("\n") + "\n";
  return { text, next: first.from + end, over: over && end === whole.length };
}

/** Up to where lines are whole; null: none is. */
function endOf(bytes: Uint8Array, over: boolean): number | null {
  const end = bytes.lastIndexOf(NEWLINE) + 1;
  if (over || bytes.length > MAX_LINE) return end === 0 || over ? bytes.length : end;
  return end === 0 ? null : end;
}

function concat(parts: readonly Uint8Array[], length: number): Uint8Array {
  if (parts.length === 1 && parts[0] !== undefined) return parts[0];
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
