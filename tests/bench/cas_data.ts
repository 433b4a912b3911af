/** @module What the benchmarks of the store put and get. */

/** Noise that is the same in every run. */
export function noise(length: number, seed: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = seed | 1;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, length);
}

/** Lines of a log, which compress to a fifth or so. */
export function log(length: number): Uint8Array<ArrayBuffer> {
  const line = (i: number) =>
    `2026-01-01T00:00:${i % 60} step ${i} loss ${(i * 7919 % 100_003) / 1e5}\n`;
  const some = new TextEncoder().encode(Array.from({ length: 30_000 }, (_, i) => line(i)).join(""));
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += some.length) {
    bytes.set(some.subarray(0, Math.min(some.length, length - at)), at);
  }
  return bytes;
}

/** So many different blobs of 1 KiB. */
export function blobs(count: number, seed: number): Uint8Array<ArrayBuffer>[] {
  const all = noise(count * 1024, seed);
  return Array.from({ length: count }, (_, i) => all.slice(i * 1024, (i + 1) * 1024));
}

/** The middle one of `values`. */
export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

/** Write `bytes` to `path`, so often that it has `length` bytes. */
export async function writeFile(path: string, bytes: Uint8Array, length: number): Promise<void> {
  using file = await Deno.open(path, { write: true, create: true, truncate: true });
  for (let at = 0; at < length; at += bytes.length) {
    // Each copy is another one: nothing may be found twice.
    bytes[0] = at / bytes.length;
    const part = bytes.subarray(0, Math.min(bytes.length, length - at));
    for (let done = 0; done < part.length;) done += await file.write(part.subarray(done));
  }
}
