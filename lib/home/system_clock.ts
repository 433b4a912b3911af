/** @module The machine's own clock. */

import type { Clock } from "./ports.ts";

/** `setTimeout` fires at once for a longer delay than this. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** Time as the machine has it. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep(ms, signal) {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const finish = () => {
        cancel();
        signal?.removeEventListener("abort", finish);
        resolve();
      };
      const cancel = after(ms, finish);
      signal?.addEventListener("abort", finish);
    });
  },
  after,
};

function after(ms: number, run: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>;
  const arm = (left: number) => {
    const delay = Math.min(Math.max(left, 0), MAX_DELAY_MS);
    timer = setTimeout(() => left > delay ? arm(left - delay) : run(), delay);
  };
  arm(ms);
  return () => clearTimeout(timer);
}
