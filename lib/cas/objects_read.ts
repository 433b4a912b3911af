/** @module One object of a bucket, being read: it goes on where it broke off, and checks itself. */

import { isError, messageOf, SubletError } from "../home/mod.ts";
import type { Clock } from "../home/mod.ts";
import { objectName } from "./cid.ts";
import type { BlobBody, Cid, Limits } from "./contract.ts";
import { Retry } from "./http_calls.ts";
import { checkLength } from "./limits.ts";
import { decode } from "./object_decode.ts";
import { readAhead, type Span, spans } from "./objects_ahead.ts";
import { type Bucket, type ObjectInfo, objectKey, type OpenObject, type Part } from "./objects.ts";
import type { WholeObjects } from "./objects_tags.ts";
import { rawFrameSize, RawReader, type ReadAt } from "./raw_blocks.ts";
import { concat, slice, streamFrom } from "./streams.ts";
import { blobError, verified } from "./verify.ts";
import {
  BLOCK_HEADER,
  BLOCK_MAX,
  HEADER,
  HEADER_MAX,
  isAltered,
  parseHeader,
} from "./zstd_frame.ts";

/** What reads of a store have in common. */
export interface ReadContext {
  readonly bucket: Bucket;
  readonly whole: WholeObjects;
  readonly clock: Clock;
  /** How many of them read ahead now. */
  readonly ahead: { readers: number };
}

/** Objects from this size on are read in parts of this size, so many at once: one connection is slower than a bucket. */
const AHEAD_FROM = 32 * 1024 * 1024;
const AHEAD_PART = 8 * 1024 * 1024;
const AHEAD_WIDTH = 3;
/** More readers than these read in one piece: parts that wait take memory. */
const AHEAD_READERS = 4;

/** An object that was found. Whoever opens it reads it once, or closes it. */
export class BucketObject {
  readonly #context: ReadContext;
  readonly #signal: AbortSignal | undefined;
  /** What was opened and not yet read. */
  #first: OpenObject | null;
  /** The first bytes of what was read. */
  #start = new Uint8Array(0);

  private constructor(
    context: ReadContext,
    readonly cid: Cid,
    first: OpenObject,
    signal: AbortSignal | undefined,
  ) {
    this.#context = context;
    this.#first = first;
    this.#signal = signal;
  }

  /** The object of `cid`, or null when there is none. */
  static async open(
    context: ReadContext,
    cid: Cid,
    signal?: AbortSignal,
  ): Promise<BucketObject | null> {
    const first = await context.bucket.open(objectKey(cid), { signal });
    return first === null ? null : new BucketObject(context, cid, first, signal);
  }

  get info(): ObjectInfo {
    if (this.#first === null) throw new TypeError("it is being read");
    return this.#first.info;
  }

  /** Let go of it, unread. */
  async close(): Promise<void> {
    const first = this.#first;
    this.#first = null;
    await first?.stream.cancel().catch(() => {});
  }

  /** The stored bytes. */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array[] = [];
    for await (const bytes of this.#chunks(this.info, 0)) parts.push(bytes);
    return await new Blob(parts as Uint8Array<ArrayBuffer>[]).bytes() as Uint8Array<ArrayBuffer>;
  }

  /** Bytes of the blob, checked; in the end it is remembered that the object is whole. */
  checked(limits: Limits = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const { info } = this;
    return this.#verified(info, () => this.#chunks(info, 0), limits);
  }

  /** Whether bits of its header have changed that make no difference; see `isAltered`. It was checked. */
  isAltered(): boolean {
    return isAltered(this.#start);
  }

  /** `source`, whose first bytes are kept. */
  async *#keepStart(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    this.#start = new Uint8Array(0);
    for await (const bytes of source) {
      const part = bytes.subarray(0, HEADER_MAX - this.#start.length);
      if (part.length > 0) {
        this.#start = concat([this.#start, part], this.#start.length + part.length);
      }
      yield bytes;
    }
  }

  async *#verified(
    info: ObjectInfo,
    open: () => AsyncIterable<Uint8Array>,
    limits: Limits,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const name = objectName(this.cid);
    const { whole } = this.#context;
    const remember = (length: number) => {
      // What is altered is to be written anew by the next put.
      if (!this.isAltered()) whole.add(name, info.tag, length);
    };
    try {
      yield* verified(this.cid, decode(() => this.#keepStart(open())), limits, remember);
    } catch (error) {
      if (isError(error, "integrity")) whole.forget(name);
      throw error;
    }
  }

  /** The blob, whose length is known when its object's first bytes say it. Throws `integrity` when they are no frame's. */
  async body(limits: Limits): Promise<BlobBody> {
    const { info } = this;
    const chunks = this.#chunks(info, 0);
    try {
      const first = (await chunks.next()).value ?? new Uint8Array(0);
      const length = parseHeader(first)?.contentSize ?? null;
      if (length !== null) checkLength(length, limits, this.cid);
      let once: AsyncIterable<Uint8Array> | null = behind(first, chunks);
      const open = () => {
        const source = once ?? this.#chunks(info, 0);
        once = null;
        return source;
      };
      const close = () => void chunks.return();
      const { transient } = limits;
      return {
        length,
        stream: streamFrom(this.#verified(info, open, limits), { close, transient }),
      };
    } catch (error) {
      await chunks.return();
      throw blobError(this.cid, error);
    }
  }

  /** Read all of it; the length of the blob. Throws `integrity` when it is damaged. */
  async check(): Promise<number> {
    const known = this.#context.whole.find(objectName(this.cid), this.info.tag);
    if (known !== null) {
      await this.close();
      return known;
    }
    let length = 0;
    for await (const bytes of this.checked()) length += bytes.length;
    return length;
  }

  /** Bytes `from` up to and without `to` of the blob, whose `length` is known from a check of this `info`. */
  async *part(
    info: ObjectInfo,
    length: number,
    from: number,
    to: number,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let at = from;
    if (length > 0 && info.size === rawFrameSize(length) && from < to) {
      const start = HEADER + Math.floor(from / BLOCK_MAX) * (BLOCK_HEADER + BLOCK_MAX);
      const chunks = this.#chunks(info, start);
      const raw = new RawReader(inSequence(chunks), length, from, to);
      try {
        for (let bytes = await raw.next(); bytes !== null; bytes = await raw.next()) {
          at = raw.at;
          yield bytes;
        }
      } finally {
        await chunks.return();
      }
    }
    if (at < to) yield* slice(decode(() => this.#chunks(info, 0)), at, to);
  }

  /** Stored bytes from `from` on, of the state `info`. */
  async *#chunks(info: ObjectInfo, from: number): AsyncGenerator<Uint8Array, void, undefined> {
    const { ahead } = this.#context;
    const signal = this.#signal;
    // Parts that come from different states must not be joined.
    const apart = info.tag !== "" && info.size - from >= AHEAD_FROM;
    if (!apart || ahead.readers >= AHEAD_READERS) {
      return yield* this.#sequence(info, { from, to: info.size }, signal);
    }
    ahead.readers++;
    try {
      await this.close();
      const read = (part: Span, signal: AbortSignal) => this.#sequence(info, part, signal);
      yield* readAhead(spans(from, info.size, AHEAD_PART), AHEAD_WIDTH, read, signal);
    } finally {
      ahead.readers--;
    }
  }

  /** Stored bytes of one span, read on where they broke off. */
  async *#sequence(
    info: ObjectInfo,
    { from, to }: Span,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let at = from;
    let open = from === 0 ? this.#first : null;
    this.#first = null;
    let retry = new Retry(this.#context.clock);
    while (at < to || open !== null) {
      try {
        open ??= await this.#open(info, { from: at, to }, signal);
        let skip = at - open.from;
        for await (const bytes of open.stream) {
          const fresh = bytes.subarray(Math.min(skip, bytes.length), skip + to - at);
          skip -= Math.min(skip, bytes.length);
          if (fresh.length === 0) {
            // A server may send more than it was asked for.
            if (at >= to) return;
            continue;
          }
          at += fresh.length;
          retry = new Retry(this.#context.clock);
          yield fresh;
        }
        if (at >= to) return;
        throw new SubletError("unreachable", `it ended after ${at} of ${info.size} bytes`);
      } catch (error) {
        await this.#pause(error, retry, signal);
      }
      open = null;
    }
  }

  async #open(
    info: ObjectInfo,
    { from, to }: Span,
    signal: AbortSignal | undefined,
  ): Promise<OpenObject> {
    const part: Part = {
      from,
      signal,
      ...(to === info.size ? {} : { to }),
      ...(info.tag === "" ? {} : { tag: info.tag }),
    };
    const open = await this.#context.bucket.open(objectKey(this.cid), part);
    if (open !== null) return open;
    throw new SubletError("unavailable", `blob ${this.cid} went away while it was read`);
  }

  /** Wait before the next try, or throw what `error` means when there is none. */
  async #pause(
    error: unknown,
    retry: Retry,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const what = `the read of blob ${this.cid}`;
    if (signal?.aborted) {
      throw new SubletError("cancelled", `${what} was cancelled`, { cause: error });
    }
    if (!isError(error, "unreachable")) throw error;
    if (await retry.next(0, signal)) return;
    throw new SubletError("unavailable", `${what} broke off: ${messageOf(error)}. Try again`, {
      cause: error,
    });
  }
}

async function* behind(
  first: Uint8Array,
  rest: AsyncGenerator<Uint8Array, void, undefined>,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (first.length > 0) yield first;
  yield* rest;
}

/**
 * The length that the header of a blob's object announces; null when it does not, or the answer breaks off.
 * `undefined`: there is no object.
 */
export async function announcedLength(
  { bucket }: ReadContext,
  cid: Cid,
): Promise<number | null | undefined> {
  const open = await bucket.open(objectKey(cid), { to: HEADER_MAX });
  if (open === null) return undefined;
  let start = new Uint8Array(0);
  try {
    for await (const bytes of open.stream) {
      start = concat(
        [start, bytes.subarray(0, HEADER_MAX)],
        start.length + Math.min(bytes.length, HEADER_MAX),
      );
      // A server may send all of it.
      if (start.length >= HEADER_MAX) break;
    }
  } catch (error) {
    if (isError(error, "unreachable")) return null;
    throw error;
  }
  return parseHeader(start)?.contentSize ?? null;
}

/** A reader of `chunks` for whoever reads each place once, from where they start. */
function inSequence(chunks: AsyncGenerator<Uint8Array, void, undefined>): ReadAt {
  let rest = new Uint8Array(0);
  return async (target) => {
    let count = 0;
    while (count < target.length) {
      if (rest.length === 0) {
        const { value } = await chunks.next();
        if (value === undefined) break;
        rest = value as Uint8Array<ArrayBuffer>;
      }
      const piece = rest.subarray(0, target.length - count);
      target.set(piece, count);
      rest = rest.subarray(piece.length);
      count += piece.length;
    }
    return count;
  };
}
