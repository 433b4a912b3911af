/** @module Work on many items, a few at a time. */

/**
 * Call `work` for each of `items`, at most `width` at once. The first failure ends it: no further item is begun, those
 * begun are awaited, and it rejects with that failure.
 */
export async function each<T>(
  items: Iterable<T>,
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items[Symbol.iterator]();
  let failed = false;
  const lane = async () => {
    while (!failed) {
      const next = queue.next();
      if (next.done === true) return;
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const results = await Promise.allSettled(Array.from({ length: width }, lane));
  for (const result of results) if (result.status === "rejected") throw result.reason;
}
