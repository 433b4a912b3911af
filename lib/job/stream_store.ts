/** @module The rows of streams: what running jobs wrote, in parts. */

import { parseCid } from "../cas/mod.ts";
import type { Cid } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Row, Tx } from "../store/mod.ts";
import { MAX_STREAMS, SESSION_STREAM, STREAM_LIMITS } from "./stream_shapes.ts";

/** Where a stream is: one attempt of a job. */
export interface StreamKey {
  readonly lease: number;
  readonly stream: string;
}

/** Bytes of a stream that are kept. */
export interface StreamPart {
  readonly position: number;
  readonly bytes: number;
  readonly blob: Cid;
}

/** A stream as it stands. */
export interface StreamState extends StreamKey {
  readonly job: number;
  readonly size: number;
  /** Milliseconds since 1970 UTC. */
  readonly updatedAt: number;
}

type StateRow = Row & {
  lease: number;
  stream: string;
  job: number;
  size: number;
  updated_at: number;
};
type PartRow = Row & { position: number; bytes: number; blob: string };

/**
 * Add a part. One that starts before the end of the stream replaces what follows its start; what is beyond the limits is
 * dropped. Throws `too_large` for a session beyond its limit, and `conflict` for more streams than a job may have.
 */
export async function appendPart(
  tx: Tx,
  job: number,
  { lease, stream }: StreamKey,
  { position, bytes, blob }: StreamPart,
  now: number,
): Promise<void> {
  const size = position + bytes;
  if (stream === SESSION_STREAM && size > STREAM_LIMITS.session) {
    throw new SubletError(
      "too_large",
      `the session of job ${job} is longer than the ${STREAM_LIMITS.session} bytes that are kept of it`,
    );
  }
  const before = await stateOf(tx, { lease, stream });
  if (before === null) await checkCount(tx, lease);
  else if (position < before.size) await cutAt(tx, { lease, stream }, position);
  await tx.run(
    `INSERT INTO streams (lease, stream, job, size, updated_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (lease, stream) DO UPDATE SET size = excluded.size, updated_at = excluded.updated_at`,
    [lease, stream, job, size, now],
  );
  await tx.run(
    "INSERT INTO stream_parts (lease, stream, position, bytes, blob) VALUES (?, ?, ?, ?, ?)",
    [lease, stream, position, bytes, blob],
  );
  if (stream !== SESSION_STREAM) await dropMiddle(tx, { lease, stream }, size);
}

async function checkCount(tx: Tx, lease: number): Promise<void> {
  const row = await tx.get<Row & { n: number }>(
    "SELECT count(*) AS n FROM streams WHERE lease = ?",
    [lease],
  );
  if ((row?.n ?? 0) < MAX_STREAMS) return;
  throw new SubletError("conflict", `lease ${lease} has ${MAX_STREAMS} streams: it gets no more`);
}

/** Forget the bytes from `position` on. */
async function cutAt(tx: Tx, { lease, stream }: StreamKey, position: number): Promise<void> {
  await tx.run("DELETE FROM stream_parts WHERE lease = ? AND stream = ? AND position >= ?", [
    lease,
    stream,
    position,
  ]);
  await tx.run(
    `UPDATE stream_parts SET bytes = ? - position
     WHERE lease = ? AND stream = ? AND position + bytes > ?`,
    [position, lease, stream, position],
  );
}

/** Forget the parts between the start and the end that are kept of a log. */
async function dropMiddle(tx: Tx, { lease, stream }: StreamKey, size: number): Promise<void> {
  const { head, tail } = STREAM_LIMITS;
  if (size <= head + tail) return;
  await tx.run(
    `DELETE FROM stream_parts
     WHERE lease = ? AND stream = ? AND position >= ? AND position + bytes <= ?`,
    [lease, stream, head, size - tail],
  );
}

async function stateOf(tx: Tx, { lease, stream }: StreamKey): Promise<StreamState | null> {
  const row = await tx.get<StateRow>(
    `SELECT lease, stream, job, size, updated_at FROM streams WHERE lease = ? AND stream = ?`,
    [lease, stream],
  );
  return row === null ? null : fromRow(row);
}

/** The streams of a job's newest attempt that sent any, or of `lease`, by name. */
export async function streamsOf(
  tx: Tx,
  job: number,
  lease: number | null = null,
): Promise<StreamState[]> {
  const rows = await tx.all<StateRow>(
    `SELECT lease, stream, job, size, updated_at FROM streams
     WHERE job = ? AND lease = coalesce(?, (SELECT max(lease) FROM streams WHERE job = ?))
     ORDER BY stream`,
    [job, lease, job],
  );
  return rows.map(fromRow);
}

/** The parts of a stream that hold byte `from` or later ones, in order, at most `limit`. */
export async function partsFrom(
  tx: Tx,
  { lease, stream }: StreamKey,
  from: number,
  limit: number,
): Promise<StreamPart[]> {
  const rows = await tx.all<PartRow>(
    `SELECT position, bytes, blob FROM stream_parts
     WHERE lease = ? AND stream = ? AND position + bytes > ? ORDER BY position LIMIT ?`,
    [lease, stream, from, limit],
  );
  return rows.map((row) => ({ ...row, blob: parseCid(row.blob) }));
}

/** How many parts a stream has. */
export async function countParts(tx: Tx, { lease, stream }: StreamKey): Promise<number> {
  const row = await tx.get<Row & { n: number }>(
    "SELECT count(*) AS n FROM stream_parts WHERE lease = ? AND stream = ?",
    [lease, stream],
  );
  return row?.n ?? 0;
}

/** Put `joined` in the place of `parts`, which follow one another. False: they changed meanwhile. */
export async function joinParts(
  tx: Tx,
  { lease, stream }: StreamKey,
  parts: readonly StreamPart[],
  joined: Cid,
): Promise<boolean> {
  const [first] = parts;
  const last = parts.at(-1);
  if (first === undefined || last === undefined) return false;
  const rows = await tx.all<PartRow>(
    `SELECT position, bytes, blob FROM stream_parts
     WHERE lease = ? AND stream = ? AND position BETWEEN ? AND ? ORDER BY position`,
    [lease, stream, first.position, last.position],
  );
  const same = rows.length === parts.length && rows.every((row, index) => {
    const part = parts[index];
    return part?.position === row.position && part.bytes === row.bytes && part.blob === row.blob;
  });
  if (!same) return false;
  await tx.run(
    `DELETE FROM stream_parts WHERE lease = ? AND stream = ? AND position BETWEEN ? AND ?`,
    [lease, stream, first.position, last.position],
  );
  await tx.run(
    "INSERT INTO stream_parts (lease, stream, position, bytes, blob) VALUES (?, ?, ?, ?, ?)",
    [lease, stream, first.position, last.position + last.bytes - first.position, joined],
  );
  return true;
}

/** Forget streams of an attempt: its report brought their files. */
export async function forgetStreams(
  tx: Tx,
  lease: number,
  streams: readonly string[],
): Promise<void> {
  for (const stream of streams) {
    await tx.run("DELETE FROM streams WHERE lease = ? AND stream = ?", [lease, stream]);
  }
}

function fromRow({ updated_at, ...rest }: StateRow): StreamState {
  return { ...rest, updatedAt: updated_at };
}
