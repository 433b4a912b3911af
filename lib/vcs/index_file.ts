/** @module Reading git's index (gitformat-index(5), version 2), to judge a checkout without one more process. */

import { SubletError } from "../home/mod.ts";
import type { ObjectFormat } from "./names.ts";

/** A file of a checkout. */
export interface IndexEntry {
  /** Its path; bytes that are no UTF-8 are replaced, so it is for judging and messages. */
  readonly path: string;
  /** Whether it is the commit of a submodule. */
  readonly submodule: boolean;
  /** Bytes of the file on disk (of a link: of its target), modulo 2^32. */
  readonly size: number;
}

const SUBMODULE = 0o160000;
const STAT_BYTES = 40;
const EXTENDED = 0x4000;

function damaged(): never {
  throw new SubletError("failed", "git wrote an index that is not of version 2. Check its version");
}

/** The entries of an index file. */
export function* indexEntries(bytes: Uint8Array, format: ObjectFormat): Generator<IndexEntry> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 12 || view.getUint32(0) !== 0x44495243) damaged();
  const version = view.getUint32(4);
  if (version !== 2 && version !== 3) damaged();
  const idBytes = format === "sha256" ? 32 : 20;
  const text = new TextDecoder();
  let at = 12;
  for (let left = view.getUint32(8); left > 0; left--) {
    const flagsAt = at + STAT_BYTES + idBytes;
    if (flagsAt + 2 > bytes.length) damaged();
    const nameAt = flagsAt + ((view.getUint16(flagsAt) & EXTENDED) === 0 ? 2 : 4);
    const end = bytes.indexOf(0, nameAt);
    if (end < 0) damaged();
    yield {
      path: text.decode(bytes.subarray(nameAt, end)),
      submodule: (view.getUint32(at + 24) & 0o170000) === SUBMODULE,
      size: view.getUint32(at + 36),
    };
    // One to eight NULs make an entry a multiple of eight bytes.
    at += (end - at + 8) & ~7;
  }
}
