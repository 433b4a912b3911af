/**
 * @module The zstd encoder and decoder of `node:zlib`, one step at a time.
 *
 * Deno's have two faults (seen in 2.6.10 and 2.9.6) that decide how they are used here. Their work is done in the
 * calling thread; and what does not fit the output buffer at once is done later, where an error ends the process
 * instead of reaching anybody, and where the encoder adds an empty second frame. So the decoder gets a block at a
 * time, whose content always fits, and what follows the encoder's first frame is dropped.
 */

import type { Transform } from "node:stream";
import { finished } from "node:stream/promises";
import { constants, createZstdCompress, createZstdDecompress } from "node:zlib";
import { messageOf, SubletError } from "../home/mod.ts";
import { withLength } from "./object_encode.ts";
import { concat } from "./streams.ts";
import { BLOCK_MAX, FrameScanner } from "./zstd_frame.ts";

/** Room for the content of a block, and more than the decoder ever holds back. */
const BUFFER = 2 * BLOCK_MAX;

/**
 * For large blobs: level 1, which takes less than half the time of level 3 (that small ones have) for between 6 % fewer and
 * 11 % more bytes (lines of a log, machine code), with the window of that one, which finds what repeats after a MiB.
 */
const LEVEL = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_windowLog]: 21 },
};

/** Largest window that a decoder may need: 128 MiB. */
export const DECODER = { params: { [constants.ZSTD_d_windowLogMax]: 27 } };

/** A transformation that is fed and emptied in steps. */
export interface Steps {
  /** Take `bytes`, which may be reused when it resolves; what is ready. */
  write(bytes: Uint8Array): Promise<Uint8Array[]>;
  /** What is left. */
  end(): Promise<Uint8Array[]>;
  /** Release it. Repeatable. */
  close(): void;
}

function stepsOf(stream: Transform): Steps {
  let ready: Uint8Array[] = [];
  let failed: Error | null = null;
  // A write that fails is never called back: the error is all that comes.
  let settle = () => {};
  // Without what Node's `Buffer` does otherwise than an array of bytes.
  stream.on("data", (bytes: Uint8Array) => {
    ready.push(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length));
  });
  stream.on("error", (error: Error) => {
    failed = error;
    settle();
  });
  function take(): Uint8Array[] {
    if (failed !== null) throw failed;
    const taken = ready;
    ready = [];
    return taken;
  }
  return {
    async write(bytes) {
      if (failed !== null) throw failed;
      await new Promise<void>((resolve) => {
        settle = resolve;
        stream.write(bytes, () => resolve());
      });
      return take();
    },
    async end() {
      if (failed !== null) throw failed;
      const done = finished(stream);
      stream.end();
      await done;
      return take();
    },
    close: () => stream.destroy(),
  };
}

/** A decoder of one frame, which takes no more than one block at a time. It rejects for what it cannot decode. */
export function createDecoder(): Steps {
  return stepsOf(createZstdDecompress({ ...DECODER, chunkSize: BUFFER }));
}

/** An encoder of one frame, whose header says that the blob has `length` bytes. */
export function createEncoder(length: number): Steps {
  const steps = stepsOf(createZstdCompress({ ...LEVEL, chunkSize: BUFFER }));
  const scanner = new FrameScanner();
  const ofFrame = (bytes: Uint8Array) => bytes.subarray(0, scanner.take(bytes));
  let start: Uint8Array[] = [];
  let started = false;

  function take(parts: Uint8Array[]): Uint8Array[] {
    if (started) return parts.map(ofFrame);
    start.push(...parts);
    const whole = concat(start, start.reduce((sum, part) => sum + part.length, 0));
    const ours = withLength(whole, length);
    if (ours === null) return [];
    started = true;
    start = [];
    return [ofFrame(ours)];
  }
  const failed = (error: unknown) =>
    new SubletError("unavailable", `cannot compress: ${messageOf(error)}`, { cause: error });

  return {
    async write(bytes) {
      return take(await steps.write(bytes).catch((error) => Promise.reject(failed(error))));
    },
    async end() {
      const rest = take(await steps.end().catch((error) => Promise.reject(failed(error))));
      scanner.finish();
      return rest;
    },
    close: () => steps.close(),
  };
}
