/** @module Reads small files in one go. */

import { fileError } from "./files.ts";

/** Larger files are not small. */
export const SMALL_FILE = 64 * 1024;

const scratch = new Uint8Array(SMALL_FILE + 1);

/**
 * The bytes of the file at `path`: null when there is none, `large` when it has more than {@linkcode SMALL_FILE}. They
 * are good until the next call. It runs in the calling thread: for a small file that is several times less work than
 * a detour over another.
 */
export function readSmall(path: string): Uint8Array | "large" | null {
  try {
    using file = Deno.openSync(path);
    let length = 0;
    while (length < scratch.length) {
      const count = file.readSync(scratch.subarray(length));
      if (count === null) return scratch.subarray(0, length);
      length += count;
    }
    return "large";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw fileError(error, `cannot read ${path}`, "unavailable");
  }
}
