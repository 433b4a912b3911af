/**
 * @module How commands speak: data on stdout, everything else on stderr; a table on a terminal, tab-separated text in a
 * pipe, JSON with `--json`.
 */

import { messageOf } from "../home/mod.ts";
import { Finished } from "./finished.ts";

/** What a program ends with whose reader left: 128 and SIGPIPE, as a shell counts. */
export const READER_LEFT = 141;

/** What the options that every command has came to. */
export interface OutputOptions {
  readonly json?: boolean | undefined;
}

/** Where a command writes. Writes are flushed when they return. */
export interface Streams {
  readonly stdout: { writeSync(bytes: Uint8Array): number; isTerminal(): boolean };
  readonly stderr: { writeSync(bytes: Uint8Array): number; isTerminal(): boolean };
}

/** Data and messages of one command. */
export class Output {
  readonly json: boolean;
  readonly #streams: Streams;
  readonly #encoder = new TextEncoder();

  constructor(options: OutputOptions = {}, streams: Streams = Deno) {
    this.json = options.json === true;
    this.#streams = streams;
  }

  /** Whether stdout is a terminal that may show colours and redraw. */
  get terminal(): boolean {
    return this.#streams.stdout.isTerminal();
  }

  /** A line of data. */
  line(text: string): void {
    this.bytes(this.#encoder.encode(text + "\n"));
  }

  /** Raw data. Throws {@linkcode Finished} when nobody reads any more, as after `| head -1`. */
  bytes(bytes: Uint8Array): void {
    try {
      for (let done = 0; done < bytes.length;) {
        done += this.#streams.stdout.writeSync(bytes.subarray(done));
      }
    } catch (error) {
      throw error instanceof Deno.errors.BrokenPipe ? new Finished(READER_LEFT) : error;
    }
  }

  /** A line for the person who watches, on stderr; or some. Nothing of it moves a cursor: agents say what they like. */
  note(text: string): void {
    // deno-lint-ignore no-control-regex
    const plain = text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]+/g, " ");
    try {
      this.#streams.stderr.writeSync(this.#encoder.encode(plain + "\n"));
    } catch {
      // Nobody watches, or it cannot be kept, as on a full disk: what goes on is not stopped by that.
    }
  }

  /** One JSON document: indented on a terminal, one line in a pipe. */
  document(value: unknown): void {
    this.line(JSON.stringify(value, null, this.terminal ? 2 : undefined));
  }

  /** Rows under `header`: aligned on a terminal, tab-separated with no header elsewhere. */
  table(header: readonly string[], rows: readonly (readonly string[])[]): void {
    if (this.terminal) {
      const head = header.length === 0 ? [] : [header.map((name) => name.toUpperCase())];
      for (const text of aligned([...head, ...rows])) this.line(text);
    } else {
      for (const row of rows) this.line(row.map(plainCell).join("\t"));
    }
  }
}

/** Lines of `rows` in columns two spaces apart. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  const plain = rows.map((row) => row.map(plainCell));
  for (const row of plain) {
    row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, cell.length));
  }
  return plain.map((row) =>
    row.map((cell, i) => i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)).join("  ")
      .trimEnd()
  );
}

/** `cell` without what would break a line or move a cursor. */
export function plainCell(cell: string): string {
  // deno-lint-ignore no-control-regex
  return cell.replaceAll(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
}

/** An age such as `12s`, `3m`, `2h` or `1d`: floored, never negative. */
export function age(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** Bytes in decimal units, such as `1.2 GB`. */
export function size(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at++;
  }
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`;
}

/** Numbers as people read them: whole ones in full, others to 6 significant digits. */
export function number(value: number): string {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

/** What to print for `error`: its message, and nothing of its stack. */
export function describe(error: unknown): string {
  return messageOf(error);
}
