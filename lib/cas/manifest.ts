/**
 * @module The manifest of a tree of files: a DRISL map `{entries: [...]}`, addressed by the DRISL CID of its bytes.
 *
 * Entries are sorted by path. One has `path`, `mode` (permission bits), `size`, an optional `mtime_ns`, and either
 * `blob` (a file's content) or `link` (a symbolic link's target). Directories are implied.
 */

import { isError, messageOf, safeRelative, SubletError } from "../home/mod.ts";
import { digestOf, drislCid, isDrisl } from "./cid.ts";
import type { Cas, Cid } from "./contract.ts";
import { compareBytes, type Drisl, Link } from "./drisl.ts";
import { decodeDrisl } from "./drisl_decode.ts";
import { encodeDrisl } from "./drisl_encode.ts";

interface Common {
  /** Relative and safe, with `/`. */
  readonly path: string;
  /** Permission bits, at most 0o7777. */
  readonly mode: number;
  /** Bytes of the content; 0 of a symbolic link. */
  readonly size: number;
  /** Nanoseconds since 1970 UTC. */
  readonly mtimeNs?: bigint;
}

/** A regular file of a tree. */
export interface FileEntry extends Common {
  readonly blob: Cid;
}

/** A symbolic link of a tree; its target may be anything, and we never follow it. */
export interface LinkEntry extends Common {
  readonly link: string;
}

/** A thing in a tree. */
export type Entry = FileEntry | LinkEntry;

/** The files of a tree, sorted by path. */
export interface Manifest {
  readonly entries: readonly Entry[];
}

/** The most bytes of a manifest that is read: some 300,000 files. */
export const MAX_MANIFEST_BYTES = 64 * 1024 * 1024;

/** Whether `entry` is a symbolic link. */
export function isLink(entry: Entry): entry is LinkEntry {
  return "link" in entry;
}

/** The error for a manifest that is none. */
export function wrongManifest(reason: string): SubletError {
  return new SubletError(
    "integrity",
    `the manifest is not valid: ${reason}. Store the tree again and use its new address`,
  );
}

const KEYS: ReadonlySet<string> = new Set(["path", "mode", "size", "mtime_ns", "blob", "link"]);

function isMap(value: Drisl | undefined): value is { [key: string]: Drisl } {
  return typeof value === "object" && value !== null && !Array.isArray(value) &&
    !(value instanceof Uint8Array) && !(value instanceof Link);
}

function wholeNumber(value: Drisl | undefined, most: number, what: string): number {
  if (typeof value !== "number" || value < 0 || value > most) {
    throw wrongManifest(`${what} is no whole number from 0 to ${most}`);
  }
  return value;
}

/** The entry that `value` is. Throws `integrity`, and `unsafe_path` for a bad path. */
export function parseEntry(value: Drisl): Entry {
  if (!isMap(value)) throw wrongManifest("an entry is not a map");
  const { path, mode, size, mtime_ns: mtime, blob, link } = value;
  if (typeof path !== "string") throw wrongManifest("an entry has no path");
  safeRelative(path, "a path of the manifest");
  const named = `entry ${JSON.stringify(path)}`;
  for (const key of Object.keys(value)) {
    if (!KEYS.has(key)) throw wrongManifest(`${named} has the unknown key ${JSON.stringify(key)}`);
  }
  if (mtime !== undefined && typeof mtime !== "number" && typeof mtime !== "bigint") {
    throw wrongManifest(`the mtime_ns of ${named} is no whole number`);
  }
  const common: Common = {
    path,
    mode: wholeNumber(mode, 0o7777, `the mode of ${named}`),
    size: wholeNumber(size, Number.MAX_SAFE_INTEGER, `the size of ${named}`),
    ...(mtime === undefined ? {} : { mtimeNs: BigInt(mtime) }),
  };
  if (blob instanceof Link && link === undefined) return { ...common, blob: blob.cid };
  if (typeof link === "string" && blob === undefined) {
    if (link === "" || link.includes("\0") || link.length > 4096) {
      throw wrongManifest(`the target of ${named} is empty, too long, or holds a NUL`);
    }
    return { ...common, link };
  }
  throw wrongManifest(`${named} has neither a blob nor the target of a link, or both`);
}

/** Throws unless paths are in order, unique, and none is a directory of another. */
function checkOrder(entries: readonly Entry[]): void {
  const text = new TextEncoder();
  const taken = new Set(entries.map((entry) => entry.path));
  let before: Uint8Array | null = null;
  for (const { path } of entries) {
    const bytes = text.encode(path);
    if (before !== null && compareBytes(before, bytes) >= 0) {
      throw wrongManifest(`its paths are not in order, or repeat, at ${JSON.stringify(path)}`);
    }
    before = bytes;
    for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
      if (taken.has(path.slice(0, at))) {
        throw wrongManifest(
          `${JSON.stringify(path)} is beneath another entry that is no directory`,
        );
      }
    }
  }
}

/** The manifest in `bytes`. Throws `integrity` unless it is its one canonical form, `unsafe_path` for a bad path. */
export function decodeManifest(bytes: Uint8Array): Manifest {
  const value = decodeDrisl(bytes);
  if (!isMap(value) || !Array.isArray(value.entries) || Object.keys(value).length !== 1) {
    throw wrongManifest("it is not a map with the one key 'entries', a list");
  }
  const entries = value.entries.map(parseEntry);
  checkOrder(entries);
  return { entries };
}

/** An entry as a value. */
export function entryValue(entry: Entry): Drisl {
  const { path, mode, size, mtimeNs } = entry;
  return {
    path,
    mode,
    size,
    ...(mtimeNs === undefined ? {} : { mtime_ns: mtimeNs }),
    ...(isLink(entry) ? { link: entry.link } : { blob: new Link(entry.blob) }),
  };
}

/** The bytes of a manifest of `entries`, in any order. Throws as {@linkcode decodeManifest} does for bad ones. */
export function encodeManifest(entries: readonly Entry[]): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder();
  const sorted = entries.map((entry) => ({ entry, bytes: text.encode(entry.path) }))
    .sort((a, b) => compareBytes(a.bytes, b.bytes))
    .map(({ entry }) => entry);
  const values = sorted.map(entryValue);
  values.forEach(parseEntry);
  checkOrder(sorted);
  return encodeDrisl({ entries: values });
}

/** Store a manifest of `entries`; its DRISL CID. */
export async function putManifest(cas: Cas, entries: readonly Entry[]): Promise<Cid> {
  return drislCid(digestOf(await cas.put(encodeManifest(entries))));
}

/**
 * The manifest at `cid`. Throws `not_found` when the store lacks it, `integrity` when it is no manifest, and
 * `unsafe_path` when it names a path outside its tree.
 */
export async function readManifest(cas: Cas, cid: Cid): Promise<Manifest> {
  if (!isDrisl(cid)) {
    throw new SubletError(
      "integrity",
      `${cid} is no address of a manifest (bafyr4i…): manifests in JSON are not read. Store the tree again`,
    );
  }
  const body = await cas.getStream(cid, { maxBytes: MAX_MANIFEST_BYTES });
  if (body === null) {
    throw new SubletError("not_found", `the store lacks manifest ${cid}. Store the tree again`);
  }
  const bytes = new Uint8Array(await new Response(body.stream).arrayBuffer());
  try {
    return decodeManifest(bytes);
  } catch (error) {
    if (!isError(error)) throw error;
    throw new SubletError(error.code, `${cid}: ${messageOf(error)}`, { cause: error });
  }
}
