/**
 * @module What an evaluate command printed: `METRIC <name>=<number>` lines, read as a stream and within bounds.
 *
 * A line ends at a line feed or a carriage return (so that a progress bar hides none), spaces around name and number
 * are fine, and the last line of a name wins.
 */

import { Buffer } from "node:buffer";

/** A longer line is no metric's. Bytes. */
const MAX_LINE = 64 * 1024;
/** More metrics than these are left out, unless they are required. */
const MAX_METRICS = 1000;
const MAX_NAME = 200;
/** Malformed lines that are kept to tell of. */
const MAX_MALFORMED = 3;
const SHOWN = 120;

const NUMBER = /^[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:[eE][+-]?\d+)?$/;

/** What was printed. */
export interface Printed {
  readonly metrics: ReadonlyMap<string, number>;
  /** Lines that start as a metric's but are none, shortened. */
  readonly malformed: readonly string[];
}

/** `text` as a finite number in decimal, or null. */
function parseNumber(text: string): number | null {
  if (!NUMBER.test(text)) return null;
  const number = Number(text.replaceAll("_", ""));
  return Number.isFinite(number) ? number : null;
}

const START = "METRIC";
const FEED = 10;
const CARRIAGE = 13;

/** The first end of a line in `bytes` from `at` on, or -1. */
function lineEnd(bytes: Uint8Array, at: number): number {
  const feed = bytes.indexOf(FEED, at);
  const carriage = (feed < 0 ? bytes : bytes.subarray(0, feed)).indexOf(CARRIAGE, at);
  return carriage < 0 ? feed : carriage;
}

/** The last end of a line in `bytes` before `at`, or -1. */
function lastLineEnd(bytes: Uint8Array, at: number): number {
  const before = bytes.subarray(0, at);
  const feed = before.lastIndexOf(FEED);
  return Math.max(feed, feed + 1 + before.subarray(feed + 1).lastIndexOf(CARRIAGE));
}

/** Reads metrics from the bytes of stdout. */
export class MetricReader {
  readonly #required: ReadonlySet<string>;
  readonly #metrics = new Map<string, number>();
  readonly #malformed: string[] = [];
  readonly #text = new TextDecoder();
  /** The line that has not ended yet: its first bytes, at most {@linkcode MAX_LINE}. */
  readonly #line = new Uint8Array(MAX_LINE);
  #length = 0;
  #tooLong = false;

  constructor(required: readonly string[]) {
    this.#required = new Set(required);
  }

  /** Take the next bytes. */
  push(chunk: Uint8Array): void {
    const first = lineEnd(chunk, 0);
    if (first < 0) return this.#keep(chunk);
    this.#keep(chunk.subarray(0, first));
    this.#end();
    const last = lastLineEnd(chunk, chunk.length);
    this.#search(chunk.subarray(first + 1, last + 1));
    this.#keep(chunk.subarray(last + 1));
  }

  /** What was printed, once there are no more bytes. */
  finish(): Printed {
    this.#end();
    return { metrics: this.#metrics, malformed: this.#malformed };
  }

  /** Look for metrics in whole lines: by the word alone, since a flood of other lines must not cost a look at each. */
  #search(lines: Uint8Array): void {
    const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.length);
    let hit = bytes.indexOf(START);
    while (hit >= 0) {
      const end = lineEnd(lines, hit);
      this.#read(lines.subarray(lastLineEnd(lines, hit) + 1, end), false);
      hit = bytes.indexOf(START, end);
    }
  }

  #keep(bytes: Uint8Array): void {
    const room = MAX_LINE - this.#length;
    if (bytes.length > room) this.#tooLong = true;
    const kept = bytes.subarray(0, room);
    this.#line.set(kept, this.#length);
    this.#length += kept.length;
  }

  #end(): void {
    this.#read(this.#line.subarray(0, this.#length), this.#tooLong);
    this.#length = 0;
    this.#tooLong = false;
  }

  #read(bytes: Uint8Array, tooLong: boolean): void {
    const line = this.#text.decode(bytes.subarray(0, MAX_LINE)).trim();
    if (/^METRIC(\s|$)/.test(line)) this.#metric(line, tooLong || bytes.length > MAX_LINE);
  }

  #metric(line: string, tooLong: boolean): void {
    const at = line.indexOf("=");
    const name = at < 0 || !line.startsWith("METRIC ") ? "" : line.slice(7, at).trim();
    const value = at < 0 || tooLong ? null : parseNumber(line.slice(at + 1).trim());
    // A table in JSON has no such key.
    if (name === "" || name === "__proto__" || name.length > MAX_NAME || value === null) {
      this.#malformed.push(line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line);
      if (this.#malformed.length > MAX_MALFORMED) this.#malformed.shift();
    } else if (
      this.#metrics.has(name) || this.#required.has(name) || this.#metrics.size < MAX_METRICS
    ) {
      this.#metrics.set(name, value);
    }
  }
}

/** Why `printed` is not enough, or null when every one of `required` was printed. */
export function missingMetrics(printed: Printed, required: readonly string[]): string | null {
  const missing = required.filter((name) => !printed.metrics.has(name));
  if (missing.length === 0) return null;
  const names = missing.slice(0, 10).map((name) => JSON.stringify(name)).join(", ");
  const more = missing.length > 10 ? ` and ${missing.length - 10} more` : "";
  const bad = printed.malformed.length === 0
    ? ""
    : `; not understood: ${printed.malformed.map((line) => JSON.stringify(line)).join(", ")}`;
  return `no METRIC line for ${names}${more}: print METRIC ${missing[0]}=NUMBER on stdout${bad}`;
}
