/** @module Who waits for a job to change. Only a change of that job wakes them. */

/** Waiters by job id. */
export class Watchers {
  readonly #byJob = new Map<number, Set<() => void>>();

  /** Call `wake` once, at the job's next change. The function that is returned takes it back. */
  watch(job: number, wake: () => void): () => void {
    let waiters = this.#byJob.get(job);
    if (waiters === undefined) this.#byJob.set(job, waiters = new Set());
    waiters.add(wake);
    return () => {
      const now = this.#byJob.get(job);
      if (now?.delete(wake) && now.size === 0) this.#byJob.delete(job);
    };
  }

  /** The job changed. */
  changed(job: number): void {
    const waiters = this.#byJob.get(job);
    if (waiters === undefined) return;
    this.#byJob.delete(job);
    for (const wake of waiters) wake();
  }

  /** Wake everybody. */
  close(): void {
    for (const job of [...this.#byJob.keys()]) this.changed(job);
  }
}
