/** @module Reads small files in one go. */

import { objectError } from "./files.ts";

/** Larger files are not small. */
export const SMALL_FILE = 64 * 1024;

/** Bytes that {@linkcode readStart} reads. */
const START = 32;

const scratch = new Uint8Array(SMALL_FILE + 1);

function read(path: string, target: Uint8Array): Uint8Array | null {
  try {
    using file = Deno.openSync(path);
    let length = 0;
    while (length < target.length) {
      const count = file.readSync(target.subarray(length));
      if (count === null) break;
      length += count;
    }
    return target.subarray(0, length);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw objectError(error, `cannot read ${path}`);
  }
}

/** The first few bytes of the file at `path`, or null when there is none. They are good until the next call. */
export function readStart(path: string): Uint8Array | null {
  return read(path, scratch.subarray(0, START));
}

/**
 * The bytes of the file at `path`: null when there is none, `large` when it has more than {@linkcode SMALL_FILE}. They
 * are good until the next call. It runs in the calling thread: for a small file that is several times less work than
 * a detour over another.
 */
export function readSmall(path: string): Uint8Array | "large" | null {
  const bytes = read(path, scratch);
  return bytes !== null && bytes.length > SMALL_FILE ? "large" : bytes;
}
