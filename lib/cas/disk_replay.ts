/** @module Puts back what the journal of an ended process has, and retires journals: see `disk_journal.ts`. */

import { cidOfDigest, objectName } from "./cid.ts";
import { blake3 } from "./blake3.ts";
import { JOURNAL_FRAME_MAX, MAGIC, RECORD, type SmallObject } from "./disk_journal.ts";
import { each } from "./each.ts";
import { fileError } from "./files.ts";
import { decodeSmall } from "./object_decode.ts";
import { readSmall } from "./small_file.ts";
import { syncDirectory } from "./sync_dir.ts";
import { TempFile } from "./temp_file.ts";

/** A lock without a journal is what a crash left when it is older than so many milliseconds. */
const ORPHAN_MS = 60 * 60 * 1000;

/** Blobs that go into a journal are no larger. */
const DECODED_MAX = 64 * 1024;

const WIDTH = 16;

/** So many objects take longer one by one than a sync of all that the file system holds. */
const MANY = 256;

/** The whole records from the start of `bytes` on. */
export function decodeRecords(bytes: Uint8Array): SmallObject[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const objects: SmallObject[] = [];
  for (let at = 0; at + RECORD <= bytes.length && view.getUint32(at, true) === MAGIC;) {
    const length = view.getUint32(at + 4, true);
    const end = at + RECORD + length;
    if (length > JOURNAL_FRAME_MAX || end > bytes.length) break;
    const cid = cidOfDigest(bytes.subarray(at + 8, at + RECORD));
    const frame = bytes.subarray(at + RECORD, end);
    if (!holds(frame, cid)) break;
    objects.push({ cid, frame });
    at = end;
  }
  return objects;
}

/** Whether `frame` is an object of `cid`. */
function holds(frame: Uint8Array, cid: string): boolean {
  try {
    const data = decodeSmall(frame, DECODED_MAX);
    return data !== null && cidOfDigest(blake3(data)) === cid;
  } catch {
    // A record that was cut off, or what was there before it.
    return false;
  }
}

/** What came of the journals of processes that have ended. */
export interface Replayed {
  /** Blobs that they held. All of them are in their places. */
  readonly count: number;
  /** Resolves when the disk has them there, so that the journals are gone. */
  readonly settled: Promise<void>;
}

/** Put back what journals of processes that have ended hold, in the store at `root`. */
export async function replayJournals(root: string): Promise<Replayed> {
  const ended = await journalsIn(`${root}/journal`);
  const settled: Promise<void>[] = [];
  let count = 0;
  for (const [id, logs] of ended) {
    const path = `${root}/journal/${id}.lock`;
    if (logs.length === 0 && !await isOld(path)) continue;
    const { ProcessLock } = await import("../store/mod.ts");
    // Its process lives, or another one does this now.
    const lock = takeLock(() => ProcessLock.tryTake(path));
    if (lock === null) continue;
    try {
      const objects: SmallObject[] = [];
      for (const log of logs) objects.push(...await replay(root, log));
      count += objects.length;
      settled.push(forget(root, lock, [...logs, path], objects));
    } catch (error) {
      lock[Symbol.dispose]();
      throw error;
    }
  }
  return { count, settled: Promise.all(settled).then(() => {}) };
}

function takeLock(take: () => Disposable | null): Disposable | null {
  try {
    return take();
  } catch {
    // It is another user's, who alone may put its blobs back.
    return null;
  }
}

/** The files of each journal in `directory`. */
async function journalsIn(directory: string): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  try {
    for await (const { name } of Deno.readDir(directory)) {
      const [id = "", ...rest] = name.split(".");
      const logs = found.get(id) ?? [];
      if (rest.at(-1) === "log") logs.push(`${directory}/${name}`);
      found.set(id, logs);
    }
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return found;
    throw fileError(error, `cannot read ${directory}`, "unavailable");
  }
  return found;
}

/** Wait until the disk has `objects`, and remove `files`, which held them. */
async function forget(
  root: string,
  lock: Disposable,
  files: readonly string[],
  objects: readonly SmallObject[],
): Promise<void> {
  using _lock = lock;
  try {
    await settle(root, objects);
    for (const file of files) await removed(file);
  } catch {
    // They stay, and are replayed again by whoever opens the store next.
  }
}

async function isOld(path: string): Promise<boolean> {
  const info = await Deno.stat(path).catch(() => null);
  return info?.mtime !== null && info?.mtime !== undefined &&
    Date.now() - info.mtime.getTime() > ORPHAN_MS;
}

async function replay(root: string, log: string): Promise<SmallObject[]> {
  let bytes: Uint8Array;
  try {
    bytes = await Deno.readFile(log);
  } catch (error) {
    // Another process was faster.
    if (error instanceof Deno.errors.NotFound) return [];
    throw fileError(error, `cannot read ${log}`, "unavailable");
  }
  const objects = decodeRecords(bytes);
  await each(objects, WIDTH, (object) => putBack(root, object));
  return objects;
}

async function putBack(root: string, { cid, frame }: SmallObject): Promise<void> {
  const name = objectName(cid);
  const directory = `${root}/blake3/${name}`;
  const path = `${directory}/bytes.zst`;
  try {
    const there = readSmall(path);
    if (there === "large" || (there !== null && holds(there, cid))) return;
    await Deno.mkdir(directory, { mode: 0o755 }).catch((error) => {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    });
    await using file = TempFile.create(`${root}/tmp`);
    file.appendSync(frame);
    await file.publish(path);
  } catch (error) {
    throw fileError(error, `cannot put back blob ${cid}`, "unavailable");
  }
}

/** Wait until `objects` are on the disk, where they are. Those that somebody has removed stay so. */
async function settle(root: string, objects: readonly SmallObject[]): Promise<void> {
  if (objects.length >= MANY && await syncFileSystem(root)) return;
  await each(objects, WIDTH, async ({ cid }) => {
    const directory = `${root}/blake3/${objectName(cid)}`;
    try {
      using file = await Deno.open(`${directory}/bytes.zst`);
      await file.syncData();
      await syncDirectory(directory);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      throw fileError(error, `cannot make blob ${cid} durable`, "unavailable");
    }
  });
  await syncDirectory(`${root}/blake3`);
}

/** Get all that the file system of `root` holds back to the disk; false where that cannot be asked for. */
async function syncFileSystem(root: string): Promise<boolean> {
  if (Deno.build.os !== "linux") return false;
  const { state } = await Deno.permissions.query({ name: "run", command: "sync" });
  if (state !== "granted") return false;
  try {
    const { success } = await new Deno.Command("sync", {
      args: ["-f", root],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).output();
    return success;
  } catch {
    // There is no such program: each object is synced by itself.
    return false;
  }
}

/** Wait until the disk has, in their places, the `count` objects that the journal `log` holds, and remove it. */
export async function retire(root: string, log: string, count: number): Promise<void> {
  if (count < MANY || !await syncFileSystem(root)) {
    await settle(root, decodeRecords(await Deno.readFile(log)));
  }
  await removed(log);
}

async function removed(path: string): Promise<void> {
  await Deno.remove(path).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) {
      throw fileError(error, `cannot remove ${path}`, "unavailable");
    }
  });
}
