/** @module Telling a fault of this machine (a full disk, no more files to open) from one of what it was asked to do. */

import { isError, SubletError } from "./errors.ts";

/** What the operating system calls them. */
const CODES: ReadonlySet<string> = new Set([
  "ENOSPC",
  "EDQUOT",
  "EROFS",
  "EMFILE",
  "ENFILE",
  "ENOMEM",
  "EIO",
]);
/** What helper programs say instead. */
const WORDS =
  /No space left on device|Disk quota exceeded|Read-only file system|Too many open files|Cannot allocate memory|Input\/output error/i;

/**
 * Whether `error` is a fault of this machine, which another one need not have. Its causes are looked at as well. Words
 * count only where a helper of this machine may have said them: a server's refusal can hold anything.
 */
export function isHostFault(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    const code = "code" in at ? at.code : undefined;
    if (typeof code === "string" && CODES.has(code)) return true;
    const local = !(at instanceof SubletError) || isError(at, "failed", "internal");
    const said = "stderr" in at && typeof at.stderr === "string" ? at.stderr : "";
    if (local && (WORDS.test(at.message) || WORDS.test(said))) return true;
  }
  return false;
}
