/** @module Reads parts of something in order, and the next ones already while one is used. */

/** Places where a part starts, and up to and without which it goes. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** What lies from `from` to `to`, in parts of at most `size`. */
export function* spans(from: number, to: number, size: number): Generator<Span, void, undefined> {
  for (let at = from; at < to; at += size) yield { from: at, to: Math.min(to, at + size) };
}

/**
 * The pieces of `parts`, in order. Up to `width` parts are read at once, and wait in memory. When it is left early, or
 * one fails, the others are stopped by the signal that they were read with.
 */
export async function* readAhead(
  parts: Iterable<Span>,
  width: number,
  read: (part: Span, signal: AbortSignal) => AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  const stop = new AbortController();
  const either = signal === undefined ? stop.signal : AbortSignal.any([stop.signal, signal]);
  const next = parts[Symbol.iterator]();
  const queue: Promise<Uint8Array[]>[] = [];
  const begin = () => {
    const { done, value } = next.next();
    if (done === true) return;
    const pieces = Array.fromAsync(read(value, either));
    // Whoever comes to it gets its error.
    pieces.catch(() => {});
    queue.push(pieces);
  };
  try {
    for (let i = 0; i < width; i++) begin();
    for (let pieces = queue.shift(); pieces !== undefined; pieces = queue.shift()) {
      const ready = await pieces;
      begin();
      yield* ready;
    }
  } finally {
    stop.abort();
  }
}
