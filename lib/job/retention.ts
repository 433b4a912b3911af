/** @module How long what ended work left in the store is kept, by kind. */

/** Days since its work ended. Null: for ever. */
export interface RetentionDays {
  /** The files of agents' sessions, with which later prompts go on. */
  readonly sessions: number | null;
  /** Files that agents and evaluations gave back, their logs among them. */
  readonly files: number | null;
}

/** A column of the home's database that names blobs which are not kept for ever. */
export interface RetainedColumn {
  readonly table: string;
  readonly column: string;
  /** The column that says when the row's work ended, in Unix ms; null while it goes on. */
  readonly ended: string;
  readonly kind: keyof RetentionDays;
}

/** Those columns. Every other one that names a blob keeps it as long as its row is there. */
export const RETAINED: readonly RetainedColumn[] = [
  { table: "agents", column: "session", ended: "ended_at", kind: "sessions" },
  { table: "agents", column: "files", ended: "ended_at", kind: "files" },
  { table: "evaluations", column: "files", ended: "ended_at", kind: "files" },
];

const DAY_MS = 86_400_000;

/** What of {@linkcode RETAINED} is kept only for rows whose work ended at `after` (Unix ms) or later, as of `now`. */
export function expiring(
  days: RetentionDays,
  now: number,
): (RetainedColumn & { readonly after: number })[] {
  return RETAINED.flatMap((column) => {
    const kept = days[column.kind];
    return kept === null ? [] : [{ ...column, after: now - kept * DAY_MS }];
  });
}
