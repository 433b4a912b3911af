/** @module What tells, without reading it, that a file is still the one that was seen. */

/** A regular file as it was seen. */
export interface Stamp {
  readonly inode: number;
  readonly size: number;
  /** Permission bits. */
  readonly mode: number;
  /** Milliseconds since 1970 UTC. */
  readonly mtime: number;
  /** When its status changed, to the second, in milliseconds since 1970 UTC: new links and modes count, too. */
  readonly changed: number;
}

/** The stamp of a file's status. */
export function stampOf(info: Deno.FileInfo): Stamp {
  return {
    inode: info.ino ?? 0,
    size: info.size,
    mode: (info.mode ?? 0) & 0o7777,
    mtime: info.mtime?.getTime() ?? 0,
    changed: info.ctime?.getTime() ?? 0,
  };
}

/** The stamp of the file at `path`, or null when no regular file is there. A symbolic link is not followed. */
export async function readStamp(path: string): Promise<Stamp | null> {
  try {
    const info = await Deno.lstat(path);
    return info.isFile ? stampOf(info) : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** {@linkcode readStamp}, at once. */
export function readStampSync(path: string): Stamp | null {
  try {
    const info = Deno.lstatSync(path);
    return info.isFile ? stampOf(info) : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Whether two stamps are of one file with unchanged content. */
export function sameStamp(a: Stamp, b: Stamp): boolean {
  return a.inode === b.inode && a.size === b.size && a.mode === b.mode && a.mtime === b.mtime;
}
