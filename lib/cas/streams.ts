/** @module Small helpers over byte streams. */

import { messageOf, SubletError } from "../home/mod.ts";
import type { BlobBody, Limits } from "./contract.ts";
import { checkCancelled, checkGrowth, checkLength, named } from "./limits.ts";

/** `parts` as one array. */
export function concat(parts: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Bytes of the one buffer that a stream is read into. */
const BUFFER = 256 * 1024;

/** Gives the next bytes of a stream, which are good until the next call; null at the end. */
type Next = () => Promise<Uint8Array | null>;

/**
 * Read `source`: into one buffer again and again where it allows that, which spares most of the work of receiving from
 * a socket, and piece by piece as it has them otherwise.
 */
function readerOf(
  source: ReadableStream<Uint8Array>,
): { next: Next; reader: ReadableStreamBYOBReader | ReadableStreamDefaultReader<Uint8Array> } {
  const byob = byobReader(source);
  if (byob === null) {
    const reader = source.getReader();
    return { reader, next: async () => (await reader.read()).value ?? null };
  }
  let buffer = new Uint8Array(BUFFER);
  const next = async () => {
    const { done, value } = await byob.read(buffer);
    if (value !== undefined) buffer = new Uint8Array(value.buffer);
    return done ? null : value;
  };
  return { reader: byob, next };
}

function byobReader(source: ReadableStream<Uint8Array>): ReadableStreamBYOBReader | null {
  try {
    return source.getReader({ mode: "byob" });
  } catch {
    // Not a stream of bytes, or somebody reads it: that shows when it is read in the other way.
    return null;
  }
}

/**
 * Pass the pieces of `source` to `take`, within `limits`; the number of bytes. A piece is good until `take` returns or
 * resolves. When that fails, or the signal of `limits` fires, the source is cancelled, and it rejects.
 */
export async function drain(
  source: ReadableStream<Uint8Array>,
  limits: Limits,
  take: (bytes: Uint8Array) => Promise<void> | void,
): Promise<number> {
  checkCancelled(limits);
  const { next, reader } = readerOf(source);
  const stop = () => void reader.cancel(limits.signal?.reason).catch(() => {});
  limits.signal?.addEventListener("abort", stop, { once: true });
  let length = 0;
  try {
    while (true) {
      const bytes = await next();
      checkCancelled(limits);
      if (bytes === null) break;
      length += bytes.length;
      checkGrowth(length, limits);
      const waited = limits.progress?.(bytes.length);
      if (waited !== undefined) await waited;
      const taken = take(bytes);
      if (taken !== undefined) await taken;
    }
    checkLength(length, limits);
    return length;
  } catch (error) {
    // Not awaited: a source may take its time to end, and the failure is already known.
    if (!limits.preventCancel) reader.cancel(error).catch(() => {});
    if (error instanceof SubletError) throw error;
    throw new SubletError(
      "failed",
      `${named(limits)} broke off: ${messageOf(error)}. Send it again`,
      { cause: error },
    );
  } finally {
    limits.signal?.removeEventListener("abort", stop);
    reader.releaseLock();
  }
}

/** All bytes of `source`, within `limits`. */
export async function collect(
  source: ReadableStream<Uint8Array>,
  limits: Limits = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  const length = await drain(source, limits, (bytes) => void parts.push(bytes.slice()));
  return concat(parts, length);
}

/** `from` and `to` as `Array.slice` counts them, as places in `length` bytes. */
export function placesIn(length: number, from: number, to = length): [number, number] {
  const place = (at: number) => at < 0 ? Math.max(0, length + at) : Math.min(length, at);
  return [place(from), place(to)];
}

/** Bytes `from` up to and without `to` of what `source` yields. */
export async function* slice(
  source: AsyncGenerator<Uint8Array>,
  from: number,
  to: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let at = 0;
  for await (const bytes of source) {
    const part = bytes.subarray(Math.max(0, from - at), Math.max(0, to - at));
    at += bytes.length;
    if (part.length > 0) yield part;
    if (at >= to) return;
  }
}

/** A blob that is in memory. */
export class BytesBody implements BlobBody {
  /** `length` is that of the whole blob, of which `bytes` may be a part. */
  constructor(readonly bytes: Uint8Array<ArrayBuffer>, readonly length = bytes.length) {}

  get stream(): ReadableStream<Uint8Array> {
    return streamOf(this.bytes);
  }
}

/** A stream of exactly `data`. */
export function streamOf(data: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (data.length > 0) controller.enqueue(data);
      controller.close();
    },
  });
}

/** Let go of the buffer that `piece` is the last in: pieces come in the order in which they are in their buffers. */
function release(piece: Uint8Array): void {
  const { buffer, byteOffset, length } = piece;
  if (byteOffset + length < buffer.byteLength || !(buffer instanceof ArrayBuffer)) return;
  // Who has passed it to the system by now keeps the memory until it is sent; the collector has nothing to do with it.
  if (!buffer.detached) buffer.transfer(0);
}

/** How a stream is made of something else. */
export interface StreamOptions {
  /** Called when the stream fails or is cancelled: a source that nobody has read from yet does not run to its end. */
  readonly close?: () => void;
  /** See `Limits`. */
  readonly transient?: boolean | undefined;
}

/** A stream of what `next` gives until it gives null, asked only when it is read. */
export function streamOfNext(
  next: () => Promise<Uint8Array | null>,
  { close, transient = false }: StreamOptions = {},
): ReadableStream<Uint8Array> {
  let before: Uint8Array | null = null;
  return new ReadableStream({
    async pull(controller) {
      if (before !== null) release(before);
      try {
        const bytes = await next();
        if (bytes === null) return controller.close();
        if (transient) before = bytes;
        controller.enqueue(bytes);
      } catch (error) {
        close?.();
        throw error;
      }
    },
    cancel: () => close?.(),
  }, { highWaterMark: 0 });
}

/** A stream of what `source` yields, read only as it is asked for. Cancelling it ends the source. */
export function streamFrom(
  source: AsyncGenerator<Uint8Array>,
  options: StreamOptions = {},
): ReadableStream<Uint8Array> {
  const close = () => {
    source.return(undefined).then(options.close, options.close);
  };
  return streamOfNext(async () => (await source.next()).value ?? null, { ...options, close });
}
