/**
 * @module Reading, writing and removing files beneath a root whose contents somebody else may have laid out, without
 * ever following a symbolic link.
 *
 * Deno has no `openat`, and where a process's permissions are limited it resolves links itself before it opens, so
 * `O_NOFOLLOW` alone proves nothing. Every operation therefore checks each directory with `lstat`, acts, and checks
 * again that the path leads to the very inode that was opened, before a byte is read or written. What remains for
 * somebody who swaps a directory for a link within those microseconds: an empty file may be made, or a file of the
 * same name removed or replaced, where the link points. No foreign file is ever read, or written through.
 */

import { constants, type promises } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BeneathPath, makeDirectory } from "./beneath_path.ts";
import { isError, SubletError } from "./errors.ts";

/** Options of every operation. */
export interface BeneathOptions {
  /** What the path is, for errors, such as `files of the report`. */
  readonly what?: string;
}

/** Options of {@linkcode writeBeneath}. */
export interface WriteOptions extends BeneathOptions {
  /** Permission bits of the file. Default 0600. */
  readonly mode?: number;
  /** Permission bits of directories that are made. Default 0700. */
  readonly directoryMode?: number;
  /** Whether the bytes are on the disk when it resolves. Default false. */
  readonly sync?: boolean;
  /** Whether a file or link of that name is replaced; else it is refused with `conflict`. Default true. */
  readonly replace?: boolean;
}

const READ_CHUNK = 256 * 1024;
// NOFOLLOW and NONBLOCK are absent on Windows; a FIFO would block the open without the latter.
const SAFE = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const READ = constants.O_RDONLY | SAFE;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | SAFE;

/** A regular file that was opened for reading. Read it once, by `bytes` or `stream`, or dispose of it. */
export class BeneathFile implements AsyncDisposable {
  readonly #handle: promises.FileHandle;
  /** Bytes, when it was opened. */
  readonly size: number;
  /** Permission bits. */
  readonly mode: number;
  /** Tells it from a file that takes its place. */
  readonly inode: number;

  constructor(handle: promises.FileHandle, info: { size: number; mode: number; ino: number }) {
    this.#handle = handle;
    this.size = info.size;
    this.mode = info.mode & 0o777;
    this.inode = info.ino;
  }

  /** Its bytes, at most `maxBytes`: more throws `too_large`. Closes it. */
  async bytes(maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    let length = 0;
    for await (const chunk of this.stream()) {
      length += chunk.length;
      if (length > maxBytes) throw new SubletError("too_large", `a file of over ${maxBytes} bytes`);
      chunks.push(chunk);
    }
    const all = new Uint8Array(length);
    let at = 0;
    for (const chunk of chunks) {
      all.set(chunk, at);
      at += chunk.length;
    }
    return all;
  }

  /** Read into `buffer` from byte `position` on; how many bytes, 0 at the end. It stays open. */
  async readAt(buffer: Uint8Array, position: number): Promise<number> {
    return (await this.#handle.read(buffer, 0, buffer.length, position)).bytesRead;
  }

  /** Its bytes as a stream, which closes it at its end, on an error, and when it is cancelled. */
  stream(): ReadableStream<Uint8Array<ArrayBuffer>> {
    const handle = this.#handle;
    return new ReadableStream({
      async pull(controller) {
        try {
          const buffer = new Uint8Array(READ_CHUNK);
          const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
          if (bytesRead > 0) return controller.enqueue(buffer.subarray(0, bytesRead));
          await handle.close();
          controller.close();
        } catch (error) {
          await handle.close().catch(() => {});
          throw error;
        }
      },
      cancel: () => handle.close(),
    }, { highWaterMark: 0 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // It may be closed already, by one of its readers.
    await this.#handle.close().catch(() => {});
  }
}

/** Open the regular file `relative` beneath `root` for reading. Throws `unsafe_path`, or `not_found`. */
export async function openBeneath(
  root: string,
  relative: string,
  options: BeneathOptions = {},
): Promise<BeneathFile> {
  const at = new BeneathPath(root, relative, options.what ?? "path");
  const before = at.lstat();
  if (before === null) throw at.vanished();
  if (!before.isFile) throw at.refuse(at.path, before);
  const handle = await open(at.path, READ).catch((error) => {
    throw openError(at, error);
  });
  try {
    const info = await handle.stat();
    at.checkIsStill({ dev: info.dev, ino: info.ino });
    return new BeneathFile(handle, info);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/**
 * Write `data` as the file `relative` beneath `root`: into a temporary file beside it, which is renamed at the end, so
 * that nobody sees a part of it. Directories above it are made. Throws `unsafe_path`, and `conflict` where a directory
 * of that name is.
 */
export async function writeBeneath(
  root: string,
  relative: string,
  data: Uint8Array | ReadableStream<Uint8Array>,
  options: WriteOptions = {},
): Promise<void> {
  const at = new BeneathPath(root, relative, options.what ?? "path");
  at.makeParents(options.directoryMode ?? 0o700);
  checkFree(at, options.replace ?? true);
  const temporary = join(dirname(at.path), `.${crypto.randomUUID()}.part`);
  const part = new BeneathPath(at.root, temporary.slice(at.root.length + 1), at.what);
  const handle = await open(temporary, CREATE, 0o600);
  try {
    try {
      const info = await handle.stat();
      part.checkIsStill({ dev: info.dev, ino: info.ino });
      await writeAll(handle, data);
      await handle.chmod(options.mode ?? 0o600);
      if (options.sync === true) await handle.sync();
    } finally {
      await handle.close();
    }
    if (!at.parentsExist()) throw at.vanished();
    checkFree(at, options.replace ?? true);
    Deno.renameSync(temporary, at.path);
  } catch (error) {
    if (part.lstat()?.isFile) Deno.removeSync(temporary);
    throw error;
  }
  if (options.sync === true) await syncDirectory(dirname(at.path));
}

/** Make the directory `relative` beneath `root`, and those above it. One that is there is accepted. */
export function mkdirBeneath(
  root: string,
  relative: string,
  options: BeneathOptions & { readonly mode?: number } = {},
): void {
  const at = new BeneathPath(root, relative, options.what ?? "path");
  const mode = options.mode ?? 0o700;
  at.makeParents(mode);
  makeDirectory(at, at.path, mode);
}

/** What is at `relative` beneath `root`, by `lstat`, or null when nothing is there. */
export function lstatBeneath(
  root: string,
  relative: string,
  options: BeneathOptions = {},
): Deno.FileInfo | null {
  return new BeneathPath(root, relative, options.what ?? "path").lstat();
}

/**
 * Remove the file, link or, with all that is in it, directory `relative` beneath `root`. Nothing there is fine. A
 * directory that its owner may not change is opened up first.
 */
export async function removeBeneath(
  root: string,
  relative: string,
  options: BeneathOptions = {},
): Promise<void> {
  const at = new BeneathPath(root, relative, options.what ?? "path");
  if (at.lstat() === null) return;
  try {
    await Deno.remove(at.path, { recursive: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    openUp(at.path);
    await Deno.remove(at.path, { recursive: true });
  }
}

function openUp(path: string): void {
  if (!Deno.lstatSync(path).isDirectory) return;
  Deno.chmodSync(path, 0o700);
  for (const entry of Deno.readDirSync(path)) {
    if (entry.isDirectory) openUp(join(path, entry.name));
  }
}

function checkFree(at: BeneathPath, replace: boolean): void {
  const there = at.lstat();
  if (there === null || (replace && !there.isDirectory)) return;
  const kind = there.isDirectory ? "a directory" : "a file";
  throw new SubletError(
    "conflict",
    `${at.what}: ${kind} ${JSON.stringify(at.relative)} is in the way`,
  );
}

async function writeAll(
  handle: promises.FileHandle,
  data: Uint8Array | ReadableStream<Uint8Array>,
): Promise<void> {
  const chunks = data instanceof Uint8Array ? [data] : data;
  for await (const chunk of chunks) {
    for (let done = 0; done < chunk.length;) {
      const { bytesWritten } = await handle.write(chunk, done, chunk.length - done, null);
      done += bytesWritten;
    }
  }
}

async function syncDirectory(path: string): Promise<void> {
  if (Deno.build.os === "windows") return;
  using directory = await Deno.open(path);
  await directory.sync();
}

function openError(at: BeneathPath, error: unknown): unknown {
  if (isError(error)) return error;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "ENOENT") return at.vanished();
  if (code !== "ELOOP") return error;
  return new SubletError(
    "unsafe_path",
    `${at.what}: ${JSON.stringify(at.relative)} is a symbolic link, and is not followed`,
    { cause: error },
  );
}
