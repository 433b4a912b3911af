/** @module Where the bytes of a stream come from while a job writes them. */

import { isError, openBeneath } from "../home/mod.ts";
import type { SessionFiles } from "./agent_ports.ts";

/** What a file holds from some byte on. */
export interface Piece {
  readonly bytes: Uint8Array;
  /** Bytes of the whole file now. */
  readonly size: number;
  /** Tells it from a file that took its place. */
  readonly inode: number;
}

/** A file that grows. */
export interface Source {
  /** At most `max` bytes from byte `from` on, or null when there is no file now. */
  read(from: number, max: number): Promise<Piece | null>;
}

/** The log file `relative` beneath `root`. */
export function logSource(root: string, relative: string): Source {
  return {
    async read(from, max) {
      try {
        await using file = await openBeneath(root, relative, { what: "log file" });
        const buffer = new Uint8Array(Math.max(0, Math.min(max, file.size - from)));
        const length = buffer.length === 0 ? 0 : await file.readAt(buffer, from);
        return { bytes: buffer.subarray(0, length), size: file.size, inode: file.inode };
      } catch (error) {
        if (isError(error, "not_found", "unsafe_path")) return null;
        throw error;
      }
    },
  };
}

/** The session file at `path`. */
export function sessionSource(files: SessionFiles, path: string): Source {
  return { read: (from, max) => files.read(path, from, max) };
}
