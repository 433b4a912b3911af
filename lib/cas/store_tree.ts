/** @module The files of a directory, into a store, and their manifest. */

import { isError, messageOf, SubletError } from "../home/mod.ts";
import type { Cas, Cid } from "./contract.ts";
import { each } from "./each.ts";
import { fileError, readSource } from "./files.ts";
import type { Entry } from "./manifest.ts";
import { putEntries } from "./manifest_stream.ts";
import type { Seen } from "./seen.ts";
import { readStamp, sameStamp } from "./stamp.ts";
import { type Found, targetOf, walk } from "./walk.ts";

/** Large files that are stored at once. */
const WIDTH = 8;
/** Files up to this size go by way of memory, and so many at once, so that many share one sync of the disk. */
const SMALL = 64 * 1024;
const SMALL_WIDTH = 64;
/** Files that are looked up at once. */
const BATCH = 1024;

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
      const one = async (index: number) => {
        options.signal?.throwIfAborted();
        const [found, blob] = [batch[index], blobs[index] ?? null];
        if (found === undefined) return;
        const entry = await store(cas, found, blob, options);
        stored[index] = entry;
        files++;
        bytes += entry.size;
        if (blob !== null) known++;
        options.progress?.(files, bytes, known);
      };
      const { small = [], large = [] } = Object.groupBy(
        batch.keys(),
        (index) => (batch[index]?.stamp.size ?? 0) > SMALL ? "large" : "small",
      );
      await each(small, SMALL_WIDTH, one);
      await each(large, WIDTH, one);
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

/** `pieces` put together to at least `size` items each. */
async function* batches<T>(pieces: AsyncIterable<T[]>, size: number): AsyncGenerator<T[]> {
  let batch: T[] = [];
  for await (const piece of pieces) {
    batch = batch.length === 0 ? piece : batch.concat(piece);
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
  if (info.isSymlink) return { ...common, size: 0, link: await targetOf(path) };
  if (!info.isFile) {
    throw new SubletError(
      "invalid_request",
      `${path} is a socket, a pipe or a device: move it out of the directory`,
    );
  }
  if (known !== null) return { ...common, size: stamp.size, blob: known };
  try {
    const blob = stamp.size > SMALL
      ? await cas.putFile(path)
      : await cas.put(await readSource(path));
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
