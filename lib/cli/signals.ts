/** @module Waiting for a signal that ends a server. */

const ENDING: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT"]
  : ["SIGINT", "SIGTERM"];

/** Ends a server and leaves its agents running to the next one: what `sublet restart` sends. */
export const RESTART: Deno.Signal = Deno.build.os === "windows" ? "SIGBREAK" : "SIGUSR1";

/**
 * An abort signal that SIGINT, SIGTERM or {@linkcode RESTART} aborts, with its name as the reason; the second of the
 * first two exits at once with the signal's code.
 */
export function endingSignal(): AbortSignal & Disposable {
  const controller = new AbortController();
  const handlers = [...ENDING, RESTART].map((name) => {
    const handler = () => {
      if (name === RESTART) return controller.abort(name);
      if (controller.signal.aborted) Deno.exit(name === "SIGINT" ? 130 : 143);
      controller.abort(name);
    };
    Deno.addSignalListener(name, handler);
    return { name, handler };
  });
  return Object.assign(controller.signal, {
    [Symbol.dispose]: () => {
      for (const { name, handler } of handlers) Deno.removeSignalListener(name, handler);
    },
  });
}

/** Resolve once `signal` aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
