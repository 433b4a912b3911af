/** @module What an error of SQLite means to us: a broken constraint, a database that cannot be used, or a bug. */

import { messageOf, SubletError } from "../home/mod.ts";
import { ConstraintError, type ConstraintKind } from "./port.ts";

/** Primary result codes of SQLite (https://www.sqlite.org/rescode.html) that say that the database cannot be used. */
const ADVICE: Readonly<Record<number, string>> = {
  3: "Check who may read and write it",
  5: "Another process holds it: wait for it, or stop it, and try again",
  6: "Another statement holds it: try again",
  8: "It, its directory or its file system is read-only: make it writable by this user",
  9: "The statement was interrupted: try again",
  10: "The disk failed to read or write: look at the kernel's log, and make a copy of the file",
  11:
    "It is damaged: stop sublet, keep a copy, and restore a backup or use `sqlite3 FILE .recover`",
  13: "The disk is full: free some space",
  14: "Check that its directory exists and that this user may use it",
  23: "Access was denied",
  26: "It is not a database of SQLite: move it away, or point SUBLET_HOME elsewhere",
};

/** The same codes by message, for the errors that carry no code. */
const BY_MESSAGE: readonly (readonly [RegExp, number])[] = [
  [/database (table )?is locked/, 5],
  [/readonly database/, 8],
  [/disk I\/O error/, 10],
  [/disk image is malformed/, 11],
  [/database or disk is full/, 13],
  [/unable to open database/, 14],
  [/not a database/, 26],
  [/access permission denied/, 3],
];

const CONSTRAINT = 19;
const CONSTRAINT_KINDS: Readonly<Record<number, ConstraintKind>> = {
  275: "check",
  787: "foreign_key",
  1299: "not_null",
  1555: "unique",
  2067: "unique",
  2579: "unique",
};

function extendedCode(error: unknown): number | null {
  const code = error instanceof Error && "errcode" in error ? error.errcode : undefined;
  if (typeof code === "number") return code;
  const text = messageOf(error);
  return BY_MESSAGE.find(([pattern]) => pattern.test(text))?.[1] ?? null;
}

/** Whether another connection's lock is why `error` was thrown. */
export function isBusy(error: unknown): boolean {
  const code = extendedCode(error);
  return code !== null && [5, 6].includes(code & 0xff);
}

/** `error`, thrown by SQLite about the database at `path`, as one of ours. `sql` is the statement, if there was one. */
export function sqliteError(error: unknown, path: string, sql?: string): SubletError {
  if (error instanceof SubletError) return error;
  const text = messageOf(error);
  const code = extendedCode(error);
  const primary = code === null ? null : code & 0xff;
  if (code !== null && primary === CONSTRAINT) {
    return new ConstraintError(CONSTRAINT_KINDS[code] ?? "other", text, { cause: error });
  }
  const advice = primary === null ? undefined : ADVICE[primary];
  if (advice !== undefined) {
    return new SubletError("unavailable", `the database ${path}: ${text}. ${advice}`, {
      cause: error,
    });
  }
  const where = sql === undefined ? "" : ` in: ${sql.replace(/\s+/g, " ").trim().slice(0, 300)}`;
  return new SubletError("internal", `the database ${path}: ${text}${where}`, { cause: error });
}
