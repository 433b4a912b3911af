/** @module Manifests of any number of entries, written and read entry by entry, in little memory. */

import { isError, messageOf, SubletError } from "../home/mod.ts";
import { digestOf, drislCid, isDrisl } from "./cid.ts";
import type { Cas, Cid } from "./contract.ts";
import { compareBytes } from "./drisl.ts";
import { decodeFirst, decodeListHead } from "./drisl_decode.ts";
import { encodeDrisl, encodeListHead } from "./drisl_encode.ts";
import { type Entry, entryValue, parseEntry, wrongManifest } from "./manifest.ts";
import { spool, type Spooled } from "./spool.ts";
import { concat, streamFrom } from "./streams.ts";

/** What a manifest's bytes start with: a map of one key, whose value is the list of entries. */
const START = new Uint8Array([0xa1, 0x67, ...new TextEncoder().encode("entries")]);

/** No entry takes as many bytes: its path and its target are bounded. */
const MAX_ENTRY = 64 * 1024;

/** Entries are handed on in pieces of about so many bytes. */
const PIECE = 64 * 1024;

/** Checks entry by entry that paths are in order, unique, and that none is a directory of another. */
export class EntryOrder {
  readonly #text = new TextEncoder();
  #before: Uint8Array | null = null;
  /** Paths that the last one starts with: others cannot be directories of what follows. */
  #above: string[] = [];

  /** The next path. Throws `integrity` when it may not follow. */
  add(path: string): void {
    const bytes = this.#text.encode(path);
    if (this.#before !== null && compareBytes(this.#before, bytes) >= 0) {
      throw wrongManifest(`its paths are not in order, or repeat, at ${JSON.stringify(path)}`);
    }
    this.#before = bytes;
    this.#above = this.#above.filter((above) => path.startsWith(above));
    if (this.#above.some((above) => path.startsWith(`${above}/`))) {
      throw wrongManifest(
        `${JSON.stringify(path)} is beneath another entry that is no directory`,
      );
    }
    this.#above.push(path);
  }
}

/**
 * Store a manifest of `entries`, which are in order; its DRISL CID. Their bytes wait in a file in `tmp`, since a manifest
 * starts with their number. Throws as `encodeManifest` does.
 */
export async function putEntries(
  cas: Cas,
  entries: AsyncIterable<Entry> | Iterable<Entry>,
  tmp?: string,
): Promise<Cid> {
  let count = 0;
  const encoded = async function* () {
    const order = new EntryOrder();
    let parts: Uint8Array[] = [];
    let held = 0;
    for await (const entry of entries) {
      const value = entryValue(entry);
      parseEntry(value);
      order.add(entry.path);
      const bytes = encodeDrisl(value);
      count++;
      parts.push(bytes);
      held += bytes.length;
      if (held < PIECE) continue;
      yield concat(parts, held);
      [parts, held] = [[], 0];
    }
    if (held > 0) yield concat(parts, held);
  };
  await using spooled = await spool(streamFrom(encoded()), {}, tmp);
  const cid = await cas.putStream(streamFrom(withStart(spooled, count)));
  return drislCid(digestOf(cid));
}

async function* withStart(entries: Spooled, count: number): AsyncGenerator<Uint8Array> {
  const head = encodeListHead(count);
  yield concat([START, head], START.length + head.length);
  yield* entries.open();
}

/**
 * The entries of the manifest at `cid`, one after another. Throws as `readManifest` does; damage may show only at the
 * end, after entries that were given.
 */
export async function* readEntries(cas: Cas, cid: Cid): AsyncGenerator<Entry, void, undefined> {
  if (!isDrisl(cid)) {
    throw new SubletError("integrity", `${cid} is no address of a manifest (bafyr4i…)`);
  }
  const body = await cas.getStream(cid);
  if (body === null) {
    throw new SubletError("not_found", `the store lacks manifest ${cid}. Store the tree again`);
  }
  const window = new Window(body.stream);
  const order = new EntryOrder();
  try {
    const start = await window.see(START.length + 9);
    if (compareBytes(start.subarray(0, START.length), START) !== 0) {
      throw wrongManifest("it is not a map with the one key 'entries', a list");
    }
    const { count, length } = decodeListHead(start.subarray(START.length));
    window.skip(START.length + length);
    for (let at = 0; at < count; at++) {
      const { value, length } = decodeFirst(await window.see(MAX_ENTRY));
      window.skip(length);
      const entry = parseEntry(value);
      order.add(entry.path);
      yield entry;
    }
    if ((await window.see(1)).length > 0) throw wrongManifest("more bytes follow it");
  } catch (error) {
    if (!isError(error, "integrity", "unsafe_path")) throw error;
    throw new SubletError(error.code, `${cid}: ${messageOf(error)}`, { cause: error });
  } finally {
    await window.close();
  }
}

/** The part of a stream that is looked at. */
class Window {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #bytes: Uint8Array = new Uint8Array(0);
  #ended = false;

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader();
  }

  /** At least the next `count` bytes, fewer at the end. */
  async see(count: number): Promise<Uint8Array> {
    if (this.#bytes.length >= count || this.#ended) return this.#bytes;
    const parts = [this.#bytes];
    let held = this.#bytes.length;
    // More than that, so that the rest is not moved for each entry.
    while (held < count * 4) {
      const { value } = await this.#reader.read();
      if (value === undefined) {
        this.#ended = true;
        break;
      }
      parts.push(value);
      held += value.length;
    }
    this.#bytes = concat(parts, held);
    return this.#bytes;
  }

  skip(count: number): void {
    this.#bytes = this.#bytes.subarray(count);
  }

  async close(): Promise<void> {
    // It may have failed by itself.
    await this.#reader.cancel().catch(() => {});
  }
}
