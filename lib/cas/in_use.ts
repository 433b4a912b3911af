/** @module Which blobs of a store are in use, so that eviction leaves them alone. */

import { objectName } from "./cid.ts";
import type { BlobBody, Cid } from "./contract.ts";
import { streamOfNext } from "./streams.ts";

/** A blob counts as used this many milliseconds after that was last written down. */
const TOUCH_EVERY = 60 * 60 * 1000;

/** The most blobs whose last use is remembered. */
const CAPACITY = 16_384;

/** The blobs that this process uses now, and when it last used others. */
export class InUse {
  readonly #counts = new Map<string, number>();
  readonly #touched = new Map<string, number>();

  /** Whether the blob is in use. */
  has(cid: Cid): boolean {
    return this.#counts.has(objectName(cid));
  }

  /** The blob is in use until the result is disposed. */
  hold(cid: Cid): Disposable {
    const name = objectName(cid);
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (!held) return;
        held = false;
        const left = (this.#counts.get(name) ?? 1) - 1;
        if (left === 0) this.#counts.delete(name);
        else this.#counts.set(name, left);
      },
    };
  }

  /** `body`, in use until its stream ends, fails or is cancelled. `failed` hears of a failure before its reader does. */
  holdBody(cid: Cid, body: BlobBody, failed: (error: unknown) => void = () => {}): BlobBody {
    if (body.bytes !== undefined) return body;
    const use = this.hold(cid);
    const reader = body.stream.getReader();
    const next = async () => {
      try {
        const { value } = await reader.read();
        if (value === undefined) use[Symbol.dispose]();
        return value ?? null;
      } catch (error) {
        failed(error);
        throw error;
      }
    };
    const close = () => {
      use[Symbol.dispose]();
      reader.cancel().catch(() => {});
    };
    return { length: body.length, stream: streamOfNext(next, { close }) };
  }

  /** Whether it is time to write down that the blob is used, at `now` (Unix ms). */
  touch(cid: Cid, now: number): boolean {
    const name = objectName(cid);
    const before = this.#touched.get(name);
    if (before !== undefined && now - before < TOUCH_EVERY) return false;
    this.#touched.delete(name);
    this.#touched.set(name, now);
    for (const oldest of this.#touched.keys()) {
      if (this.#touched.size <= CAPACITY) break;
      this.#touched.delete(oldest);
    }
    return true;
  }
}
