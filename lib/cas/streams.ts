/** @module Small helpers over byte streams. */

import type { Limits } from "./contract.ts";
import { checkCancelled, checkGrowth, checkLength } from "./limits.ts";

/** `parts` as one array. */
export function concat(parts: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** All bytes of `source`, within `limits`. The source is cancelled when it breaks them. */
export async function collect(
  source: ReadableStream<Uint8Array>,
  limits: Limits = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of source) {
    checkCancelled(limits);
    length += part.length;
    checkGrowth(length, limits);
    parts.push(part);
  }
  checkCancelled(limits);
  checkLength(length, limits);
  return concat(parts, length);
}

/** A stream of exactly `data`. */
export function streamOf(data: Uint8Array): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      if (data.length > 0) controller.enqueue(data);
      controller.close();
    },
  });
}
