/** @module The files of a directory, into a store, and their manifest. */

import { join } from "node:path";
import { isError, messageOf, SubletError, unsafeReason } from "../home/mod.ts";
import type { Cas, Cid } from "./contract.ts";
import { each } from "./each.ts";
import { fileError } from "./files.ts";
import { type Entry, putManifest } from "./manifest.ts";
import { readStamp, sameStamp, type Stamp, stampOf } from "./stamp.ts";

const WIDTH = 8;
/** A file that changed this recently may change again without its time showing it. */
const RACY_MS = 2_000;

/** Files that need not be read again, because they are as they were. Lives as long as its process. */
export class SeenFiles {
  readonly #seen = new Map<string, { stamp: Stamp; blob: Cid }>();

  /** The blob of the file at `path` when it is as it was and the store still has it. */
  async blob(cas: Cas, path: string, stamp: Stamp): Promise<Cid | null> {
    const seen = this.#seen.get(path);
    if (seen === undefined || !sameStamp(seen.stamp, stamp)) return null;
    return await cas.has(seen.blob) ? seen.blob : null;
  }

  /** Remember the file, unless it changed just now. */
  add(path: string, stamp: Stamp, blob: Cid): void {
    if (Date.now() - stamp.mtime > RACY_MS) this.#seen.set(path, { stamp, blob });
  }
}

/** How a tree is stored. */
export interface StoreTreeOptions {
  /** Whether times are kept. Default false, so that equal trees have equal addresses. */
  readonly times?: boolean;
  readonly seen?: SeenFiles;
  readonly signal?: AbortSignal;
}

/** A tree that is stored. */
export interface StoredTree {
  /** The DRISL CID of its manifest. */
  readonly manifest: Cid;
  readonly files: number;
  readonly bytes: number;
}

interface Found {
  readonly path: string;
  readonly info: Deno.FileInfo;
}

/**
 * Store the files and symbolic links beneath the directory `root`, and their manifest. Empty directories are left out.
 * Throws `unsafe_path` for a name that no manifest may hold, `invalid_request` for a root that is no directory and for
 * sockets, pipes and devices, `conflict` when a file changes while it is read.
 */
export async function storeTree(
  cas: Cas,
  root: string,
  options: StoreTreeOptions = {},
): Promise<StoredTree> {
  const found: Found[] = [];
  await walk(await directoryAt(root), "", found);
  const entries: Entry[] = [];
  let bytes = 0;
  await each(found, WIDTH, async ({ path, info }) => {
    options.signal?.throwIfAborted();
    const entry = await store(cas, join(root, path), path, info, options);
    bytes += entry.size;
    entries.push(entry);
  });
  return { manifest: await putManifest(cas, entries), files: entries.length, bytes };
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

async function walk(directory: string, prefix: string, found: Found[]): Promise<void> {
  for await (const { name } of Deno.readDir(directory)) {
    const path = prefix === "" ? name : `${prefix}/${name}`;
    const reason = unsafeReason(path);
    if (reason !== null) {
      throw new SubletError(
        "unsafe_path",
        `${
          JSON.stringify(path)
        } cannot be stored: ${reason}. Rename it, or move it out of the directory`,
      );
    }
    const info = await Deno.lstat(join(directory, name));
    if (info.isDirectory) await walk(join(directory, name), path, found);
    else found.push({ path, info });
  }
}

async function store(
  cas: Cas,
  path: string,
  relative: string,
  info: Deno.FileInfo,
  options: StoreTreeOptions,
): Promise<Entry> {
  const stamp = stampOf(info);
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
  const known = await options.seen?.blob(cas, path, stamp) ?? null;
  if (known !== null) return { ...common, size: stamp.size, blob: known };
  try {
    const blob = await cas.putFile(path);
    const after = await readStamp(path);
    if (after === null || !sameStamp(stamp, after)) {
      throw new SubletError("conflict", `${path} changed while it was read. Try again`);
    }
    options.seen?.add(path, stamp, blob);
    return { ...common, size: stamp.size, blob };
  } catch (error) {
    if (!isError(error)) throw error;
    throw new SubletError(error.code, `cannot store ${relative}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
