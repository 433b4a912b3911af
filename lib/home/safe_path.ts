/** @module The one judge of relative paths that came from the wire, and the one opener beneath a root. */

import { SubletError } from "./errors.ts";

/** Why `path` is no safe relative path, or null when it is one. */
export function unsafeReason(path: string): string | null {
  if (path === "") return "it is empty";
  if (path.includes("\0")) return "it holds a NUL";
  if (path.includes("\\")) return "it holds a backslash";
  if (path.startsWith("/")) return "it is absolute";
  if (/^[A-Za-z]:/.test(path)) return "it starts with a drive letter";
  if (path.length > 4096) return "it is longer than 4,096 characters";
  for (const part of path.split("/")) {
    if (part === "") return "it has an empty part";
    if (part === "." || part === "..") return `it has a part '${part}'`;
    // Names that git or a case-insensitive or trimming file system would take for `.git`.
    if (/^(\.git|git~\d+)[\s.]*$/i.test(part)) return `it has a part '${part}'`;
    if (new TextEncoder().encode(part).length > 255) return "it has a part of over 255 bytes";
  }
  return null;
}

/**
 * `path`, judged safe: relative, with no empty, `.` or `..` part, no NUL, backslash, drive letter or `.git`.
 * Throws `unsafe_path`, which names `what` (such as `files of the report`).
 */
export function safeRelative(path: string, what: string): string {
  const reason = unsafeReason(path);
  if (reason !== null) {
    throw new SubletError(
      "unsafe_path",
      `${what}: ${JSON.stringify(path)} is refused: ${reason}. Send a plain relative path`,
    );
  }
  return path;
}
