/** @module Waiting for a signal that ends a server. */

const ENDING: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT"]
  : ["SIGINT", "SIGTERM"];

/** An abort signal that SIGINT or SIGTERM aborts; the second one exits at once with the signal's code. */
export function endingSignal(): AbortSignal & Disposable {
  const controller = new AbortController();
  const handlers = ENDING.map((name) => {
    const handler = () => {
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
