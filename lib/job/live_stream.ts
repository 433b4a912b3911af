/**
 * @module One stream of what a job writes, on its way to the server while the job runs: the new bytes of a file go into
 * the CAS, and the server is told where they belong.
 */

import type { Cas } from "../cas/mod.ts";
import type { Source } from "./live_source.ts";
import type { Hide } from "./run_logs.ts";
import type { JobControl } from "./runner.ts";
import type { SavedPart } from "./stream_shapes.ts";

/** Told of bytes. False: the server takes none. */
export type Save = NonNullable<JobControl["saved"]>;

/** What a {@linkcode LiveStream} is made of. */
export interface LiveStreamOptions {
  readonly cas: Pick<Cas, "put">;
  readonly save: Save;
  /** The stream's name on the server. */
  readonly name: string;
  readonly source: Source;
  readonly hide: Hide;
  /** Bytes that are sent from the start on; of what comes after them, the last {@linkcode LiveStreamOptions.tail}. */
  readonly head: number;
  readonly tail: number;
  /** Whether a line is sent only once it is whole, as far as it is not long. Default false. */
  readonly lines?: boolean;
  /** More of a part, when it is made. */
  readonly more?: () => Partial<Pick<SavedPart, "usage" | "session">>;
  /** Gets every byte as it is in the file, in order, and null when the file begins anew. */
  readonly see?: (bytes: Uint8Array | null) => void;
}

/** How far a stream is, for a later process of the worker. */
export interface Progress {
  readonly inode: number;
  /** Bytes of the file that were read. */
  readonly read: number;
  /** Bytes of the stream that the server has. */
  readonly sent: number;
}

/** Bytes that are read at once, and the most of one part. */
const PIECE = 1024 * 1024;
/** A line that is longer is sent in parts. */
const LONG_LINE = 256 * 1024;
/** Steps that pass over a server that took nothing: ten minutes, at two seconds each. */
const PAUSE = 300;
/** Bytes of {@linkcode LiveStream} by which a file is known again. */
const LAST = 64;
const NEWLINE = 10;

/** Follows a file. Its calls may not overlap. */
export class LiveStream {
  readonly name: string;
  readonly #options: LiveStreamOptions;
  #inode: number | null = null;
  #read = 0;
  /** The last bytes that were read: a file that was written anew has others there. */
  #last: Uint8Array = new Uint8Array();
  /** What is to be sent, hidden already, with the place of its first byte in the stream. */
  #pending: Uint8Array = new Uint8Array();
  #at = 0;
  /** Bytes that are left out after what is pending. */
  #gap = 0;
  /** Up to here the server has the stream already. */
  #had = 0;
  /** Bytes that the file had already. */
  #least = 0;
  #hider: Hider | null = null;
  /** Steps until a server that took nothing is asked again. */
  #pause = 0;

  /** `progress`: where an earlier process of the worker was. */
  constructor(options: LiveStreamOptions, progress: Progress | null = null) {
    this.name = options.name;
    this.#options = options;
    if (progress === null) return;
    this.#inode = progress.inode;
    this.#had = progress.sent;
    this.#least = progress.read;
    // What is hidden has another length, and must not be cut: it is gone through again from the start.
    if (options.hide !== null || options.see !== undefined) return;
    this.#read = progress.read;
    this.#at = progress.sent;
  }

  /** How far it is; null when there was no file. */
  get progress(): Progress | null {
    if (this.#inode === null) return null;
    return {
      inode: this.#inode,
      read: Math.max(0, this.#read - this.#pending.length),
      sent: Math.max(this.#at, this.#had),
    };
  }

  /**
   * Send what is new; whether anything was. Rejects when it could not be sent: the next call tries it again. `last`:
   * nothing comes any more, so that what waits for the rest of its line goes too.
   */
  async step(last = false): Promise<boolean> {
    if (this.#pause > 0) {
      this.#pause--;
      return false;
    }
    let any = false;
    do {
      while (await this.#sendOne(false)) any = true;
    } while (this.#pause === 0 && await this.#fill());
    if (!last || this.#pause > 0) return any;
    this.#take(await this.#hider?.end() ?? []);
    this.#hider = null;
    while (await this.#sendOne(true)) any = true;
    return any;
  }

  /** Read a piece of the file; whether there was any. */
  async #fill(): Promise<boolean> {
    const { source, head, tail, see } = this.#options;
    const from = this.#read - this.#last.length;
    const piece = await source.read(from, PIECE);
    if (piece === null) return false;
    const known = this.#last.length;
    const same = piece.inode === this.#inode && piece.size >= Math.max(this.#read, this.#least) &&
      this.#last.every((byte, at) => piece.bytes[at] === byte);
    if (!same) {
      const first = this.#inode === null;
      this.#inode = piece.inode;
      if (!first) await this.#restart();
      return piece.size > 0;
    }
    const ahead = piece.size - this.#read;
    if (this.#read >= head && ahead > tail) {
      await this.#skip(ahead - tail);
      return true;
    }
    const fresh = piece.bytes.subarray(known);
    if (fresh.length === 0) return false;
    this.#read += fresh.length;
    this.#last = piece.bytes.slice(-LAST);
    see?.(fresh);
    this.#take(await this.#hidden(fresh));
    return true;
  }

  /** The file is another one, or was written anew: so is the stream. */
  async #restart(): Promise<void> {
    this.#read = 0;
    this.#last = new Uint8Array();
    this.#pending = new Uint8Array();
    this.#at = 0;
    this.#gap = 0;
    this.#had = 0;
    this.#least = 0;
    this.#options.see?.(null);
    await this.#hider?.drop();
    this.#hider = null;
  }

  /** Leave out `count` bytes of the file, and the rest of the line that they end in. */
  async #skip(count: number): Promise<void> {
    this.#take(await this.#hider?.end() ?? []);
    this.#hider = null;
    const piece = await this.#options.source.read(this.#read + count, LONG_LINE);
    const left = count + Math.max(0, (piece?.bytes.indexOf(NEWLINE) ?? -1) + 1);
    this.#read += left;
    this.#last = new Uint8Array();
    // Counted as it is in the file: the server shows a gap of about that.
    this.#gap += left;
  }

  async #hidden(bytes: Uint8Array): Promise<Uint8Array[]> {
    const { hide } = this.#options;
    if (hide === null) return [bytes];
    this.#hider ??= new Hider(hide());
    return await this.#hider.pass(bytes);
  }

  #take(parts: readonly Uint8Array[]): void {
    this.#pending = joined([this.#pending, ...parts]);
  }

  /** Send a part of what is pending; whether there was one. `all`: a line need not be whole. */
  async #sendOne(all: boolean): Promise<boolean> {
    const length = this.#sendable(all);
    const known = Math.min(Math.max(this.#had - this.#at, 0), length);
    const part = this.#pending.subarray(known, Math.min(length, known + PIECE));
    if (part.length > 0 && !await this.#send(part, this.#at + known)) return false;
    this.#at += known + part.length;
    this.#pending = this.#pending.slice(known + part.length);
    if (this.#pending.length === 0) {
      this.#at += this.#gap;
      this.#gap = 0;
    }
    return known + part.length > 0;
  }

  #sendable(all: boolean): number {
    const { length } = this.#pending;
    if (all || this.#options.lines !== true || this.#gap > 0) return length;
    const end = this.#pending.lastIndexOf(NEWLINE) + 1;
    return end === 0 && length >= LONG_LINE ? length : end;
  }

  async #send(part: Uint8Array, offset: number): Promise<boolean> {
    const { cas, save, name, more } = this.#options;
    const blob = await cas.put(part);
    const rest = { usage: null, session: null, ...more?.() };
    const taken = await save({ stream: name, offset, bytes: part.length, blob, ...rest });
    if (!taken) this.#pause = PAUSE;
    return taken;
  }
}

/** A transform whose output is at hand after each write. */
class Hider {
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #done: Promise<void>;
  #out: Uint8Array[] = [];

  constructor({ readable, writable }: TransformStream<Uint8Array, Uint8Array>) {
    this.#writer = writable.getWriter();
    this.#done = (async () => {
      for await (const bytes of readable) this.#out.push(bytes);
    })();
    // Whoever writes or ends it learns of a failure.
    this.#done.catch(() => {});
  }

  async pass(bytes: Uint8Array): Promise<Uint8Array[]> {
    await this.#writer.write(bytes);
    // The reader gets its turn.
    await new Promise((resolve) => setTimeout(resolve));
    return this.#out.splice(0);
  }

  async end(): Promise<Uint8Array[]> {
    await this.#writer.close();
    await this.#done;
    return this.#out.splice(0);
  }

  async drop(): Promise<void> {
    await this.#writer.abort();
    await this.#done.catch(() => {});
  }
}

function joined(given: readonly Uint8Array[]): Uint8Array {
  const parts = given.filter((part) => part.length > 0);
  const [first] = parts;
  if (parts.length === 1 && first !== undefined) return first;
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
