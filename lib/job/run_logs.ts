/** @module The log files of a job, on their way into the CAS: bounded, and never through a link. */

import { join } from "node:path";
import { type Cas, type Cid, each } from "../cas/mod.ts";
import {
  type BeneathFile,
  type Clock,
  isError,
  messageOf,
  openBeneath,
  unsafeReason,
} from "../home/mod.ts";

/** Makes the stream that a file goes through, so that no secret is in it. Null: there is none to hide. */
export type Hide = (() => TransformStream<Uint8Array, Uint8Array>) | null;

/** How much of a job's output is kept. */
export interface LogLimits {
  /** Bytes of one log file that go to the CAS; of a larger one, its first and last half of that. */
  readonly keepBytes: number;
  /** A job whose stdout or stderr passes this is stopped. Bytes. */
  readonly stopBytes: number;
  /** Files of a job that go to the CAS. */
  readonly files: number;
}

/** What a worker keeps unless it is told otherwise. */
export const LOG_LIMITS: LogLimits = {
  keepBytes: 64 * 1024 * 1024,
  stopBytes: 1024 * 1024 * 1024,
  files: 1000,
};

const CHUNK = 256 * 1024;
/** A file of at most this size is put in one piece. */
const SMALL = 1024 * 1024;
const WIDTH = 8;
/** A job that leaves more than these behind is not looked through any further. */
const MAX_LEFT_OUT = 10_000;
/** Bounds of the time between two looks at the size of the output, milliseconds. */
const LOOK_MS = { least: 20, first: 50, most: 500 };

/** Resolves with a message once one of `paths` has more than `limit` bytes, or with null when `signal` aborts. */
export async function watchOutput(
  paths: readonly string[],
  limit: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<string | null> {
  let before = { size: 0, at: clock.monotonic() };
  let wait = LOOK_MS.first;
  while (true) {
    await clock.sleep(wait, signal);
    if (signal.aborted) return null;
    const sizes = await Promise.all(paths.map(sizeOf));
    const size = Math.max(...sizes);
    if (size > limit) {
      const path = paths[sizes.indexOf(size)] ?? "";
      const name = path.slice(path.lastIndexOf("/") + 1);
      return `wrote more than ${limit} bytes to ${name}, so it was stopped: print less`;
    }
    // Half of the time that it would take to get there: a flood of gigabytes is seen soon, silence costs little.
    const now = { size, at: clock.monotonic() };
    const rate = (now.size - before.size) / Math.max(now.at - before.at, 1);
    const left = rate > 0 ? (limit - size) / rate / 2 : Infinity;
    wait = Math.min(Math.max(left, LOOK_MS.least), LOOK_MS.most);
    before = now;
  }
}

async function sizeOf(path: string): Promise<number> {
  return await Deno.lstat(path).then((info) => info.size, () => 0);
}

/** Log files in the CAS. */
export interface StoredLogs {
  /** Path beneath the root to its address. */
  readonly files: Readonly<Record<string, Cid>>;
  readonly leftOut: LeftOut;
}

/** Files that did not get into the CAS. */
export class LeftOut {
  count = 0;
  /** Some of them, with the reason. */
  readonly some: string[] = [];

  add(path: string, reason: string): void {
    this.count++;
    if (this.some.length < 10) this.some.push(`${path}: ${reason}`);
  }
}

/**
 * Put the regular files beneath `root` into `cas`, each through `hide`, but those beneath a path that `skip` takes;
 * shallow ones first. Links and special files are passed over. Rejects when the store fails.
 */
export async function storeLogs(
  cas: Cas,
  root: string,
  skip: (path: string) => boolean,
  limits: LogLimits = LOG_LIMITS,
  hide: Hide = null,
): Promise<StoredLogs> {
  const leftOut = new LeftOut();
  const files = new Map<string, Cid>();
  await each(await list(root, skip, limits.files, leftOut), WIDTH, async (path) => {
    let opened: BeneathFile;
    try {
      opened = await openBeneath(root, path, { what: "log file" });
    } catch (error) {
      leftOut.add(path, messageOf(error));
      return;
    }
    await using file = opened;
    try {
      files.set(path, await storeLog(cas, file, limits.keepBytes, hide));
    } catch (error) {
      if (!isError(error, "too_large")) throw error;
      leftOut.add(path, error.message);
    }
  });
  return { files: Object.fromEntries([...files].sort(([a], [b]) => a < b ? -1 : 1)), leftOut };
}

/** The regular files beneath `root`, at most `most`. */
async function list(
  root: string,
  skip: (path: string) => boolean,
  most: number,
  leftOut: LeftOut,
): Promise<string[]> {
  const paths: string[] = [];
  const directories = [""];
  for (const directory of directories) {
    for await (const entry of Deno.readDir(join(root, directory))) {
      const path = directory === "" ? entry.name : `${directory}/${entry.name}`;
      if (skip(path) || (!entry.isFile && !entry.isDirectory)) continue;
      const reason = unsafeReason(path) ??
        (path === "__proto__" ? "no report can hold that name" : null) ??
        ((entry.isFile ? paths : directories).length >= most ? "there are too many" : null);
      if (reason !== null) leftOut.add(path, reason);
      else (entry.isFile ? paths : directories).push(path);
      if (leftOut.count > MAX_LEFT_OUT) return paths;
    }
  }
  return paths;
}

async function storeLog(
  cas: Cas,
  file: BeneathFile,
  keepBytes: number,
  hide: Hide,
): Promise<Cid> {
  if (hide === null && file.size <= Math.min(SMALL, keepBytes)) {
    const bytes = new Uint8Array(file.size);
    return await cas.put(bytes.subarray(0, await fill(file, bytes, 0)));
  }
  const parts = file.size <= keepBytes
    ? [{ from: 0, to: file.size }]
    : headAndTail(file.size, keepBytes);
  const plain = ReadableStream.from(pieces(file, parts));
  return await cas.putStream(hide === null ? plain : plain.pipeThrough(hide()));
}

type Part = { readonly from: number; readonly to: number } | Uint8Array<ArrayBuffer>;

function headAndTail(size: number, keepBytes: number): Part[] {
  const half = Math.floor(keepBytes / 2);
  const note = `\n[${size - 2 * half} bytes are left out here: the log had ${size}]\n`;
  return [{ from: 0, to: half }, new TextEncoder().encode(note), { from: size - half, to: size }];
}

async function* pieces(file: BeneathFile, parts: readonly Part[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) {
    if (part instanceof Uint8Array) {
      yield part;
      continue;
    }
    for (let at = part.from; at < part.to;) {
      const buffer = new Uint8Array(Math.min(CHUNK, part.to - at));
      const count = await file.readAt(buffer, at);
      if (count === 0) break;
      yield buffer.subarray(0, count);
      at += count;
    }
  }
}

async function fill(file: BeneathFile, buffer: Uint8Array, position: number): Promise<number> {
  let done = 0;
  while (done < buffer.length) {
    const count = await file.readAt(buffer.subarray(done), position + done);
    if (count === 0) break;
    done += count;
  }
  return done;
}

/** The text of the last `bytes` bytes of the file `relative` beneath `root`; empty when it cannot be read. */
export async function tailOf(root: string, relative: string, bytes: number): Promise<string> {
  try {
    await using file = await openBeneath(root, relative, { what: "log file" });
    const buffer = new Uint8Array(Math.min(bytes, file.size));
    const count = await fill(file, buffer, file.size - buffer.length);
    return new TextDecoder().decode(buffer.subarray(0, count));
  } catch {
    // A job may remove its own log; its exit code still tells what happened.
    return "";
  }
}
