/** @module The `Range` header of a GET (RFC 9110, section 14), as far as one range of bytes. */

/** A range as `Array.slice` takes it: from a place, from the start or, when it is negative, from the end. */
export interface Range {
  readonly from: number;
  readonly to?: number;
}

/** The one range that `header` asks for. Null: none, several, or something else, so the whole is to be sent. */
export function parseRange(header: string | null): Range | null {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(header ?? "") ?? [];
  if (first === undefined || last === undefined) return null;
  if (first === "") return last === "" ? null : { from: -place(last) };
  const from = place(first);
  if (last === "") return { from };
  return place(last) < from ? null : { from, to: place(last) + 1 };
}

/** The number that `digits` are, or one beyond every blob: a range may end, and begin, anywhere. */
function place(digits: string): number {
  return Math.min(Number(digits), 1e15);
}

/** First and last byte of `range` in a blob of `length` bytes, or null when it has none of them. */
export function resolveRange(range: Range, length: number): readonly [number, number] | null {
  if (Object.is(range.from, -0)) return null;
  const first = range.from < 0 ? Math.max(0, length + range.from) : range.from;
  const last = Math.min(length, range.to ?? length) - 1;
  return first <= last ? [first, last] : null;
}
