/** @module What may be handed to git as a revision, a ref or a name: nothing that could be an option or a pathspec. */

import { SubletError } from "../home/mod.ts";

/** The hash of a repository's object ids. */
export type ObjectFormat = "sha1" | "sha256";

/** Where the commits that a replica fetched are pinned. */
export const PINS = "refs/sublet/fetched/";

/** Whether `text` is a full object id. */
export function isRevision(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
}

/** `revision`, when it is a full commit id; `invalid_request` otherwise. */
export function fullRevision(revision: string): string {
  if (isRevision(revision)) return revision;
  throw new SubletError(
    "invalid_request",
    `${
      JSON.stringify(revision.slice(0, 80))
    } is no full commit id. Send 40 or 64 lower-case hex digits`,
  );
}

/** The format of the ids of `revision`. */
export function formatOf(revision: string): ObjectFormat {
  return revision.length === 64 ? "sha256" : "sha1";
}

/** `name`, when it can name one version (branch, tag, revision, `HEAD~2`) on one line; `invalid_request` otherwise. */
export function versionName(name: string): string {
  const reason = name === ""
    ? "it is empty"
    : name.length > 1024
    ? "it is longer than 1,024 characters"
    // deno-lint-ignore no-control-regex -- a line break would be a second request to git
    : /[\u0000-\u001f\u007f]/.test(name)
    ? "it holds a control character"
    : name.startsWith("-")
    ? "it starts with a dash"
    : name.includes("..") || name.startsWith("^")
    ? "it is a range"
    : name.includes(":")
    ? "it names a path or searches"
    : null;
  if (reason === null) return name;
  throw new SubletError(
    "invalid_request",
    `${
      JSON.stringify(name.slice(0, 80))
    } names no version: ${reason}. Give a branch, a tag or a commit`,
  );
}

/** `name`, when it is a ref that we may write: `refs/` and parts of plain characters; `invalid_request` otherwise. */
export function refName(name: string): string {
  const parts = name.split("/");
  const plain = parts.length >= 3 && parts[0] === "refs" && name.length <= 255 &&
    parts.every((part) =>
      /^[A-Za-z0-9_][A-Za-z0-9._-]*$/.test(part) && !part.includes("..") && !part.endsWith(".") &&
      !part.endsWith(".lock")
    );
  if (plain) return name;
  throw new SubletError(
    "invalid_request",
    `${
      JSON.stringify(name.slice(0, 80))
    } is no ref to keep a version under. Use refs/sublet/<name>`,
  );
}

/** `prefix`, when it is the beginning of refs that we write, up to a slash; `invalid_request` otherwise. */
export function refPrefix(prefix: string): string {
  if (prefix.endsWith("/")) refName(`${prefix}0`);
  else refName("");
  return prefix;
}

const WINDOWS = Deno.build.os === "windows";

/** `path`, when it is absolute and plain, with `/` between its parts and none at its end; `invalid_request` otherwise. */
export function absolutePath(path: string): string {
  const absolute = WINDOWS ? /^[A-Za-z]:[\\/]/.test(path) : path.startsWith("/");
  // deno-lint-ignore no-control-regex -- git's own files hold such a path on one line
  if (absolute && !/[\u0000\n\r]/.test(path)) {
    return (WINDOWS ? path.replaceAll("\\", "/") : path).replace(/(?<=.)\/+$/, "");
  }
  throw new SubletError(
    "invalid_request",
    `${JSON.stringify(path.slice(0, 200))} is no absolute path of this machine. Give one`,
  );
}
