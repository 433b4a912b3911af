/** @module A streaming zstd encoder whose frame starts with our header, so that the length of the blob is in it. */

import { once } from "node:events";
import { createZstdCompress } from "node:zlib";
import { messageOf, SubletError } from "../home/mod.ts";
import { LEVEL, withLength } from "./object_encode.ts";
import { concat } from "./streams.ts";
import { BLOCK_MAX, FrameScanner } from "./zstd_frame.ts";

/** An encoder of one frame. */
export interface Compressor {
  /** Take `bytes`, which may be reused when it resolves; what is ready of the frame. */
  write(bytes: Uint8Array): Promise<Uint8Array[]>;
  /** The rest of the frame. */
  end(): Promise<Uint8Array[]>;
  /** Release it; only for one that is not ended. */
  close(): void;
}

/** Start a frame whose header says that the blob has `length` bytes. */
export function createCompressor(length: number): Compressor {
  const stream = createZstdCompress({ ...LEVEL, chunkSize: BLOCK_MAX });
  let ready: Uint8Array[] = [];
  let started = false;
  let failed: Error | null = null;
  // The library may add an empty second frame: see `firstFrame` in object_encode.ts.
  const scanner = new FrameScanner();
  const ofFrame = (part: Uint8Array) => part.subarray(0, scanner.take(part));
  stream.on("data", (bytes: Uint8Array) => ready.push(bytes));
  stream.on("error", (error: Error) => failed = error);

  function take(ended: boolean): Uint8Array[] {
    if (failed !== null) {
      throw new SubletError("unavailable", `cannot compress: ${messageOf(failed)}`, {
        cause: failed,
      });
    }
    const taken = ready;
    ready = [];
    if (started || taken.length === 0) return taken.map(ofFrame).filter((part) => part.length > 0);
    const frame = concat(taken, taken.reduce((sum, part) => sum + part.length, 0));
    const start = withLength(frame, length);
    started = start !== null;
    if (start !== null) return [ofFrame(start)];
    if (ended) throw new SubletError("internal", "the zstd library wrote no header");
    ready = [frame];
    return [];
  }

  return {
    async write(bytes) {
      await new Promise<void>((resolve) => stream.write(bytes, () => resolve()));
      return take(false);
    },
    async end() {
      const ended = once(stream, "end");
      stream.end();
      await ended;
      const rest = take(true);
      scanner.finish();
      return rest;
    },
    close: () => stream.destroy(),
  };
}
