/** @module The files of a directory, into a store, and their manifest. */

import { join } from "node:path";
import { isError, messageOf, SubletError, unsafeReason } from "../home/mod.ts";
import type { Cas, Cid } from "./contract.ts";
import { each } from "./each.ts";
import { fileError } from "./files.ts";
import { compareBytes } from "./drisl.ts";
import type { Entry } from "./manifest.ts";
import { putEntries } from "./manifest_stream.ts";
import type { Seen, SeenFile } from "./seen.ts";
import { readStamp, sameStamp, stampOf } from "./stamp.ts";

const WIDTH = 8;
/** Files that are looked up at once. */
const BATCH = 256;

/** How a tree is stored. */
export interface StoreTreeOptions {
  /** Whether times are kept. Default false, so that equal trees have equal addresses. */
  readonly times?: boolean;
  readonly seen?: Seen;
  /** What each path of the manifest starts with, without a slash at its end. Default: nothing. */
  readonly prefix?: string;
  readonly signal?: AbortSignal;
  /** Where what is too large for memory waits. Default: the system's directory for temporary files. */
  readonly tmp?: string;
  /** Told, as it goes, of the files so far and their bytes, and of how many of them were not read again. */
  readonly progress?: (files: number, bytes: number, known: number) => void;
}

/** A tree that is stored. */
export interface StoredTree {
  /** The DRISL CID of its manifest. */
  readonly manifest: Cid;
  readonly files: number;
  readonly bytes: number;
}

interface Found extends SeenFile {
  /** Its path in the manifest. */
  readonly relative: string;
  readonly info: Deno.FileInfo;
}

/**
 * Store the files and symbolic links beneath the directory `root`, and their manifest, in memory that does not grow with
 * their number. Empty directories are left out. Throws `unsafe_path` for a name that no manifest may hold,
 * `invalid_request` for a root that is no directory and for sockets, pipes and devices, `conflict` when a file changes
 * while it is read.
 */
export async function storeTree(
  cas: Cas,
  root: string,
  options: StoreTreeOptions = {},
): Promise<StoredTree> {
  const at = await directoryAt(root);
  let files = 0;
  let bytes = 0;
  let known = 0;
  const entries = async function* () {
    for await (const batch of batches(walk(at, options.prefix ?? ""), BATCH)) {
      const blobs = await knownBlobs(cas, batch, options.seen);
      const stored: Entry[] = new Array(batch.length);
      await each(batch.entries(), WIDTH, async ([index, found]) => {
        options.signal?.throwIfAborted();
        const blob = blobs[index] ?? null;
        const entry = await store(cas, found, blob, options);
        stored[index] = entry;
        files++;
        bytes += entry.size;
        if (blob !== null) known++;
        options.progress?.(files, bytes, known);
      });
      yield* stored;
    }
  };
  const manifest = await putEntries(cas, entries(), options.tmp);
  await options.seen?.flush?.();
  return { manifest, files, bytes };
}

/** The blobs of those files that are as they were seen, and that the store still has; null for the others. */
async function knownBlobs(
  cas: Cas,
  files: readonly Found[],
  seen: Seen | undefined,
): Promise<(Cid | null)[]> {
  if (seen === undefined) return files.map(() => null);
  const blobs = await seen.find(files);
  const lacking = new Set(await cas.missing(blobs.filter((blob) => blob !== null)));
  return blobs.map((blob) => blob === null || lacking.has(blob) ? null : blob);
}

async function* batches<T>(items: AsyncIterable<T>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function directoryAt(root: string): Promise<string> {
  try {
    // The root itself may be a link to where the data is; those beneath it are stored as links.
    const path = await Deno.realPath(root);
    if ((await Deno.lstat(path)).isDirectory) return path;
  } catch (error) {
    throw fileError(error, `cannot read ${root}`, "not_found");
  }
  throw new SubletError("invalid_request", `${root} is no directory. Name the directory it is in`);
}

/** What is beneath `directory`, in the order of a manifest's paths. */
async function* walk(directory: string, prefix: string): AsyncGenerator<Found> {
  const text = new TextEncoder();
  const there: { key: Uint8Array; relative: string; path: string; directory: boolean }[] = [];
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    const relative = prefix === "" ? name : `${prefix}/${name}`;
    const reason = unsafeReason(relative);
    if (reason !== null) {
      throw new SubletError(
        "unsafe_path",
        `${
          JSON.stringify(relative)
        } cannot be stored: ${reason}. Rename it, or move it out of the directory`,
      );
    }
    // What is in a directory sorts as its name with what follows.
    const key = text.encode(isDirectory ? `${name}/` : name);
    there.push({ key, relative, path: join(directory, name), directory: isDirectory });
  }
  there.sort((a, b) => compareBytes(a.key, b.key));
  for (const { relative, path, directory } of there) {
    if (directory) {
      yield* walk(path, relative);
      continue;
    }
    const at = Date.now();
    const info = await Deno.lstat(path);
    yield { path, relative, info, stamp: stampOf(info), at };
  }
}

async function store(
  cas: Cas,
  found: Found,
  known: Cid | null,
  options: StoreTreeOptions,
): Promise<Entry> {
  const { path, relative, info, stamp } = found;
  const common = {
    path: relative,
    mode: stamp.mode,
    ...(options.times === true ? { mtimeNs: BigInt(Math.trunc(stamp.mtime)) * 1_000_000n } : {}),
  };
  if (info.isSymlink) return { ...common, size: 0, link: await Deno.readLink(path) };
  if (!info.isFile) {
    throw new SubletError(
      "invalid_request",
      `${path} is a socket, a pipe or a device: move it out of the directory`,
    );
  }
  if (known !== null) return { ...common, size: stamp.size, blob: known };
  try {
    const blob = await cas.putFile(path);
    const after = await readStamp(path);
    if (after === null || !sameStamp(stamp, after)) {
      throw new SubletError("conflict", `${path} changed while it was read. Try again`);
    }
    await options.seen?.add(found, blob);
    return { ...common, size: stamp.size, blob };
  } catch (error) {
    if (!isError(error)) throw error;
    throw new SubletError(error.code, `cannot store ${relative}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
