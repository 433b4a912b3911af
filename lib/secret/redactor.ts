/** @module Hiding secrets in whatever leaves a job: every byte of every form of a value, however a stream is cut. */

import { formsOf } from "./forms.ts";
import { Matcher } from "./matcher.ts";

/** What stands in the place of a value. It is ASCII, and needs no escape in JSON, a URL or HTML. */
export const MASK = "[secret]";

const MASK_BYTES = new TextEncoder().encode(MASK);

/** Hides a list of values. */
export class Redactor {
  readonly #matcher: Matcher | null;

  constructor(values: readonly string[]) {
    const forms = values.flatMap(formsOf);
    this.#matcher = forms.length === 0 ? null : new Matcher(forms);
  }

  /** A stream that passes bytes on without the values. It holds back no more than the longest form. */
  stream(): TransformStream<Uint8Array, Uint8Array> {
    if (this.#matcher === null) return new TransformStream();
    const pass = new Pass(this.#matcher);
    return new TransformStream({
      transform: (chunk, controller) => enqueue(controller, pass.take(chunk)),
      flush: (controller) => enqueue(controller, pass.end()),
    });
  }

  /** `text` without the values. */
  text(text: string): string {
    if (this.#matcher === null) return text;
    const pass = new Pass(this.#matcher);
    const head = pass.take(new TextEncoder().encode(text)).slice();
    const decoder = new TextDecoder();
    return decoder.decode(head, { stream: true }) + decoder.decode(pass.end());
  }
}

/** {@linkcode Redactor} by values, for whoever runs jobs. */
export const redaction = {
  /** A maker of streams, one for each thing that leaves. */
  streams(values: readonly string[]): () => TransformStream<Uint8Array, Uint8Array> {
    const redactor = new Redactor(values);
    return () => redactor.stream();
  },
  text(values: readonly string[], text: string): string {
    return new Redactor(values).text(text);
  },
};

function enqueue(
  controller: TransformStreamDefaultController<Uint8Array>,
  bytes: Uint8Array,
): void {
  if (bytes.length > 0) controller.enqueue(bytes);
}

/** One pass over a stream. A byte leaves when no value that is still to end can cover it. */
class Pass {
  readonly #matcher: Matcher;
  #state = Matcher.START;
  /** Bytes that have not left, and how many of the first of them are part of a value. */
  #held = new Uint8Array(0);
  /** Bytes that were seen, and up to where they have left. */
  #seen = 0;
  /** Where what is hidden begins and ends, in order, apart from one another; all of it is still held. */
  #hidden: { from: number; to: number }[] = [];
  /** Whether the last thing that left is the mask, and what it stands for ended just there. */
  #maskedTo = -1;

  constructor(matcher: Matcher) {
    this.#matcher = matcher;
  }

  take(chunk: Uint8Array): Uint8Array {
    for (const byte of chunk) {
      this.#state = this.#matcher.next(this.#state, byte);
      this.#seen++;
      const length = this.#matcher.longest(this.#state);
      if (length > 0) this.#hide(this.#seen - length, this.#seen);
    }
    const all = new Uint8Array(this.#held.length + chunk.length);
    all.set(this.#held);
    all.set(chunk, this.#held.length);
    return this.#release(all, this.#seen - this.#matcher.depth(this.#state));
  }

  end(): Uint8Array {
    return this.#release(this.#held, this.#seen);
  }

  #hide(from: number, to: number): void {
    let start = from;
    while (true) {
      const last = this.#hidden.at(-1);
      if (last === undefined || last.to < start) break;
      start = Math.min(start, last.from);
      this.#hidden.pop();
    }
    this.#hidden.push({ from: start, to });
  }

  /** Let go of `all` (the last bytes seen) up to the byte `until`, values masked, and hold the rest. */
  #release(all: Uint8Array, until: number): Uint8Array {
    const first = this.#seen - all.length;
    const parts: Uint8Array[] = [];
    let at = first;
    while (at < until) {
      const hidden = this.#hidden[0];
      if (hidden === undefined || hidden.from >= until) {
        parts.push(all.subarray(at - first, until - first));
        at = until;
      } else {
        if (hidden.from > at) parts.push(all.subarray(at - first, hidden.from - first));
        // What goes on from a value that was masked is masked already.
        if (this.#maskedTo !== Math.max(hidden.from, at)) parts.push(MASK_BYTES);
        at = Math.min(hidden.to, until);
        this.#maskedTo = at;
        if (hidden.to <= until) this.#hidden.shift();
      }
    }
    this.#held = all.slice(until - first);
    return concat(parts);
  }
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const [only] = parts;
  // A copy: whoever gave the chunk may use it again.
  if (parts.length === 1 && only !== undefined) return only.slice();
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
