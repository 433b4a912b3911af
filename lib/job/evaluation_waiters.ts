/** @module Who waits for an evaluation: woken by the commit that changes it, holding no thread and costing no query. */

/** Callers that wait, by evaluation. */
export class Waiters {
  readonly #waiting = new Map<number, Set<() => void>>();

  /** How many wait. */
  get size(): number {
    let size = 0;
    for (const each of this.#waiting.values()) size += each.size;
    return size;
  }

  /** Call `wake` at each change of evaluation `id`, until the function that is returned is called. */
  subscribe(id: number, wake: () => void): () => void {
    const waiting = this.#waiting.get(id) ?? new Set();
    this.#waiting.set(id, waiting.add(wake));
    return () => {
      waiting.delete(wake);
      if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id);
    };
  }

  /** Evaluation `id` changed. */
  wake(id: number): void {
    for (const wake of [...this.#waiting.get(id) ?? []]) wake();
  }
}
