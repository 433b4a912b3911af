/** @module What a shared copy of a file is: its name, content, mode and time. */

import { isError, SubletError } from "../home/mod.ts";
import type { Cas } from "./contract.ts";
import type { FileEntry } from "./manifest.ts";
import { collect } from "./streams.ts";

/** Seconds since 1970 of a file whose manifest has no time: in the past, so that each write to it shows. */
const NO_TIME = 1_000_000_000;

/** The mode of a copy: nobody may write, and its owner may always read. */
export function sharedMode(mode: number): number {
  return (mode & 0o555) | 0o400;
}

/** The time of a copy, in seconds since 1970. */
export function sharedTime(entry: Pick<FileEntry, "mtimeNs">): number {
  return entry.mtimeNs === undefined ? NO_TIME : Number(entry.mtimeNs) / 1e9;
}

/** A file to have a copy of. Null: its size is not known, and whatever its address names is right. */
export type Wanted = Omit<FileEntry, "size"> & { readonly size: number | null };

/** The name of its copy. */
export function nameOf({ blob, mode, mtimeNs }: Wanted): string {
  const time = mtimeNs === undefined ? "" : `.${mtimeNs}`;
  return `${blob}.${sharedMode(mode).toString(8)}${time}`;
}

/** Files up to this size go by way of memory, in a third of the time. */
const SMALL = 64 * 1024;

/**
 * Write the file to `path`, where nothing is; after a failure a part of it may be. Throws `not_found` when the store lacks it, `integrity` when its size is
 * another.
 */
export async function fetchShared(cas: Cas, entry: Wanted, path: string): Promise<void> {
  const { size, blob } = entry;
  if (size === null || size > SMALL) {
    const length = await cas.getFile(blob, path);
    if (length === null) throw lacking(entry);
    return checkSize(entry, length);
  }
  const bytes = await smallBytes(cas, entry);
  checkSize(entry, bytes.length);
  Deno.writeFileSync(path, bytes, { createNew: true, mode: 0o600 });
}

async function smallBytes(cas: Cas, entry: Wanted): Promise<Uint8Array> {
  try {
    const body = await cas.getStream(entry.blob, { maxBytes: SMALL });
    if (body === null) throw lacking(entry);
    return body.bytes ?? await collect(body.stream, { maxBytes: SMALL });
  } catch (error) {
    throw isError(error, "too_large") ? wrongSize(entry, `more than ${SMALL}`) : error;
  }
}

function lacking({ path, blob }: Wanted): SubletError {
  return new SubletError(
    "not_found",
    `the store lacks the file ${JSON.stringify(path)} (${blob}). Store its tree again`,
  );
}

/** Give a copy its time and mode. */
export function settle(entry: Wanted, path: string): void {
  Deno.utimeSync(path, sharedTime(entry), sharedTime(entry));
  Deno.chmodSync(path, sharedMode(entry.mode));
}

/** Throws `integrity` unless a copy of `length` bytes is the file that was wanted. */
export function checkSize(entry: Wanted, length: number): void {
  if (entry.size !== null && length !== entry.size) throw wrongSize(entry, String(length));
}

function wrongSize({ path, blob, size }: Wanted, found: string): SubletError {
  return new SubletError(
    "integrity",
    `the file ${
      JSON.stringify(path)
    } (${blob}) has ${found} bytes, not the ${size} of its manifest. ` +
      "Store its tree again",
  );
}
