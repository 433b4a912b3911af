/** @module The bootstrap's lower bound on a sum of paired differences. Anyone can reproduce it bit for bit. */

/** How many resamples are drawn when there are too many to enumerate. */
export const RESAMPLES = 4000;
/** Up to this many differences every resample is enumerated. */
export const EXACT_DIFFERENCES = 5;

/** Draws between two pauses: some milliseconds of work. */
const SLICE = 500_000;

/**
 * The lower bound, at one-sided `confidence`, of the sum of `differences` under resampling with replacement.
 *
 * Of `n` differences, `n` are drawn with replacement and added, again and again; the bound is the element at index
 * `floor((1 - confidence) * count)` of the `count` sums in rising order. With at most 5 differences the sums are those of
 * all `n^n` equally likely resamples. With more there are 4,000, drawn by Marsaglia's xorshift128 (Xorshift RNGs, 2003):
 * 32-bit words `x, y, z, w` start at 123456789, 362436069, 521288629 and 88675123; a step takes
 * `t = x ^ (x << 11)`, moves `y, z, w` to `x, y, z`, and sets `w` to `w ^ (w >>> 19) ^ t ^ (t >>> 8)`, the step's word
 * `u`. A draw takes the difference at index `floor(u * n / 2^32)`; the draws of a resample are added in their order.
 *
 * `pause` is awaited now and then, so that long sums leave the thread to others.
 */
export async function lowerBound(
  differences: readonly number[],
  confidence: number,
  pause: () => Promise<void> = () => Promise.resolve(),
): Promise<number> {
  if (differences.length === 0) throw new RangeError("a bound needs at least one difference");
  const values = Float64Array.from(differences);
  const sums = values.length <= EXACT_DIFFERENCES
    ? everySum(values)
    : await drawnSums(values, pause);
  sums.sort();
  const bound = sums[Math.floor((1 - confidence) * sums.length)];
  if (bound === undefined) throw new RangeError(`${confidence} is no confidence`);
  return bound;
}

function everySum(values: Float64Array): Float64Array {
  const n = values.length;
  const sums = new Float64Array(n ** n);
  for (let resample = 0; resample < sums.length; resample++) {
    let sum = 0;
    for (let draw = 0, digits = resample; draw < n; draw++, digits = Math.floor(digits / n)) {
      sum += values[digits % n] ?? 0;
    }
    sums[resample] = sum;
  }
  return sums;
}

async function drawnSums(values: Float64Array, pause: () => Promise<void>): Promise<Float64Array> {
  const n = values.length;
  const sums = new Float64Array(RESAMPLES);
  let [x, y, z, w] = [123456789, 362436069, 521288629, 88675123];
  let left = SLICE;
  for (let resample = 0; resample < RESAMPLES; resample++) {
    let sum = 0;
    for (let draw = 0; draw < n; draw++) {
      const t = x ^ (x << 11);
      x = y;
      y = z;
      z = w;
      w = w ^ (w >>> 19) ^ t ^ (t >>> 8);
      sum += values[Math.floor((w >>> 0) * n / 4294967296)] ?? 0;
    }
    sums[resample] = sum;
    left -= n;
    if (left > 0) continue;
    left = SLICE;
    await pause();
  }
  return sums;
}
