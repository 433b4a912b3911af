/** @module The nearest of some words to one that was mistyped. */

/** How many single letters must be added, dropped, swapped or changed to get from `a` to `b`. */
export function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(
        (previous[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (previous[j - 1] ?? 0) + (same ? 0 : 1),
      );
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) cost = Math.min(cost, (before[j - 2] ?? 0) + 1);
      row.push(cost);
    }
    before = previous;
    previous = row;
  }
  return previous[b.length] ?? 0;
}

/**
 * The word of `known` that `word` is most likely meant to be, or null when none is near. The start of a single word is
 * near it.
 */
export function nearest(word: string, known: readonly string[]): string | null {
  const longer = known.filter((one) => one.toLowerCase().startsWith(word.toLowerCase()));
  if (word.length > 2 && longer.length === 1) return longer[0] ?? null;
  const bound = Math.max(1, Math.floor(word.length / 3));
  let best: string | null = null;
  let distance = bound + 1;
  for (const candidate of known) {
    const d = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (d < distance) [best, distance] = [candidate, d];
  }
  return best;
}
