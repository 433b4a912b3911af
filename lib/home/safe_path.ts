/** @module The one judge of relative paths that came from the wire. `beneath.ts` opens what it lets through. */

import { SubletError } from "./errors.ts";

/** Characters that a file system of macOS ignores in a name, so that `.g<ZWJ>it` opens `.git` there. */
const IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/** Names that git, or a file system that folds case, trims ends, has short names or streams, takes for `.git`. */
const GIT = /^(\.git|git~\d+)[\s.]*(:|$)/i;

const utf8 = new TextEncoder();

/** Why `path` is no safe relative path, or null when it is one. */
export function unsafeReason(path: string): string | null {
  if (path === "") return "it is empty";
  if (path.length > 4096 || utf8.encode(path).length > 4096) return "it is longer than 4,096 bytes";
  if (!path.isWellFormed()) return "it is not well-formed Unicode";
  if (path.includes("\0")) return "it holds a NUL";
  if (path.includes("\\")) return "it holds a backslash";
  if (path.startsWith("/")) return "it is absolute";
  if (/^[A-Za-z]:/.test(path)) return "it starts with a drive letter";
  for (const part of path.split("/")) {
    if (part === "") return "it has an empty part";
    // Windows drops dots and spaces at the end of a name, which makes `.. ` or `...` of it what they look like.
    if (/^[.\s]+$/.test(part)) return `it has a part ${JSON.stringify(part)}`;
    if (GIT.test(part.replace(IGNORED, ""))) return `it has a part ${JSON.stringify(part)}`;
    if (utf8.encode(part).length > 255) return "it has a part of over 255 bytes";
  }
  return null;
}

/**
 * `path`, judged safe: relative, with no empty part, none of dots alone, no NUL, backslash, drive letter or `.git`, at
 * most 4,096 bytes, and 255 a part. Throws `unsafe_path`, which names `what` (such as `files of the report`).
 */
export function safeRelative(path: string, what: string): string {
  const reason = unsafeReason(path);
  if (reason !== null) {
    const shown = path.length > 200 ? path.slice(0, 200) + "…" : path;
    throw new SubletError(
      "unsafe_path",
      `${what}: ${JSON.stringify(shown)} is refused: ${reason}. Send a plain relative path`,
    );
  }
  return path;
}
