/** @module The files that blobs come from and go to, outside a store. */

import { SubletError } from "../home/mod.ts";

/** A failure of the file system as `unavailable`, or as `not_found` when `missing` says that absence is the caller's. */
export function fileError(
  error: unknown,
  what: string,
  missing: "not_found" | "unavailable",
): SubletError {
  if (error instanceof SubletError) return error;
  const reason = error instanceof Error ? error.message : String(error);
  if (error instanceof Deno.errors.NotFound) {
    return new SubletError(missing, `${what}: ${reason}. Check the path`, { cause: error });
  }
  return new SubletError(
    "unavailable",
    `${what}: ${reason}. Check its permissions, the free space and the limit of open files, then try again`,
    { cause: error },
  );
}

/** Codes of failures that an object on disk has by itself: a bad sector, or something else in its place. */
const OWN: ReadonlySet<string> = new Set(["EIO", "EISDIR", "ELOOP"]);

/**
 * A failure to read the stored object of a blob. `integrity` when it is the object that cannot be read, whatever is
 * done about it; `unavailable` when it may be read another time.
 */
export function objectError(error: unknown, what: string): SubletError {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  if (typeof code !== "string" || !OWN.has(code)) return fileError(error, what, "unavailable");
  const reason = error instanceof Error ? error.message : code;
  return new SubletError("integrity", `${what}: ${reason}`, { cause: error });
}

/** All bytes of the file at `path`; `not_found` when there is none, `unavailable` when it cannot be read. */
export async function readSource(path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await Deno.readFile(path);
  } catch (error) {
    throw fileError(error, `cannot read ${path}`, "not_found");
  }
}

/** The bytes of the file at `path`, piece by piece, with errors like those of {@linkcode readSource}. */
export function readPieces(path: string): AsyncGenerator<Uint8Array, void, undefined> {
  return readPart(path, 0, Infinity);
}

/** Bytes `from` up to and without `to` of the file at `path`, as {@linkcode readPieces} gives them. */
export async function* readPart(
  path: string,
  from: number,
  to: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    using file = await Deno.open(path);
    if (from > 0) await file.seek(from, Deno.SeekMode.Start);
    for (let at = from; at < to;) {
      const piece = new Uint8Array(Math.min(256 * 1024, to - at));
      const count = await file.read(piece);
      if (count === null) return;
      at += count;
      yield piece.subarray(0, count);
    }
  } catch (error) {
    throw fileError(error, `cannot read ${path}`, "not_found");
  }
}

/**
 * Pass the bytes of the file at `path` to `take`, piece by piece; a piece is good until `take` returns or resolves. Its
 * errors go through; others are like those of {@linkcode readSource}.
 */
export async function readThrough(
  path: string,
  take: (bytes: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const buffer = new Uint8Array(256 * 1024);
  try {
    using file = await Deno.open(path);
    while (true) {
      const count = await file.read(buffer);
      if (count === null) return;
      await take(buffer.subarray(0, count));
    }
  } catch (error) {
    throw fileError(error, `cannot read ${path}`, "not_found");
  }
}

/**
 * Write `source` to a temporary file beside `path` and rename it there; the number of bytes. On a failure `path` is
 * as it was and nothing is left beside it.
 */
export async function writeBeside(
  path: string,
  source: ReadableStream<Uint8Array>,
): Promise<number> {
  const temporary = `${path}.${crypto.randomUUID()}.tmp`;
  let made = false;
  try {
    using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o644 });
    made = true;
    let length = 0;
    for await (const part of source) {
      length += part.length;
      for (let at = 0; at < part.length;) at += await file.write(part.subarray(at));
    }
    await Deno.rename(temporary, path);
    made = false;
    return length;
  } catch (error) {
    throw fileError(error, `cannot write ${path}`, "not_found");
  } finally {
    if (made) await Deno.remove(temporary).catch(() => {});
    if (!source.locked) await source.cancel().catch(() => {});
  }
}
