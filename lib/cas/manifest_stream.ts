/** @module Manifests of any number of entries, written and read entry by entry, in little memory. */

import { isError, messageOf, SubletError } from "../home/mod.ts";
import { digestOf, drislCid, isDrisl } from "./cid.ts";
import type { BlobBody, Cas, Cid } from "./contract.ts";
import { compareBytes } from "./drisl.ts";
import { decodeListHead } from "./drisl_decode.ts";
import { encodeListHead } from "./drisl_encode.ts";
import { type Entry, wrongManifest } from "./manifest.ts";
import { EntryReader } from "./manifest_entry_read.ts";
import { EntryWriter } from "./manifest_entry_write.ts";
import { EntryOrder } from "./manifest_order.ts";
import { spool, type Spooled } from "./spool.ts";
import { concat, streamFrom } from "./streams.ts";

/** What a manifest's bytes start with: a map of one key, whose value is the list of entries. */
const START = new Uint8Array([0xa1, 0x67, ...new TextEncoder().encode("entries")]);

/** No entry takes as many bytes: its path and its target are bounded. */
const MAX_ENTRY = 64 * 1024;

/** Entries are handed on in pieces of about so many bytes. */
const PIECE = 64 * 1024;

/** The most entries that are read at once. */
const BATCH = 1024;

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
    const writer = new EntryWriter();
    for await (const entry of entries) {
      writer.add(entry);
      order.add(entry.path);
      count++;
      if (writer.length >= PIECE) yield writer.take();
    }
    if (writer.length > 0) yield writer.take();
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
  for await (const batch of readBatches(cas, cid)) yield* batch;
}

/** {@linkcode readEntries}, many at once: each costs less. */
export async function* readBatches(cas: Cas, cid: Cid): AsyncGenerator<Entry[], void, undefined> {
  yield* decodeBatches((await openManifest(cas, cid)).stream, cid);
}

/** The bytes of the manifest at `cid`. Throws as `readManifest`. */
export async function openManifest(cas: Cas, cid: Cid): Promise<BlobBody> {
  if (!isDrisl(cid)) {
    throw new SubletError(
      "integrity",
      `${cid} is no address of a manifest (bafyr4i…): manifests in JSON are not read. Store the tree again`,
    );
  }
  const body = await cas.getStream(cid);
  if (body !== null) return body;
  throw new SubletError("not_found", `the store lacks manifest ${cid}. Store the tree again`);
}

/** The entries of the manifest in `stream`, whose address is `cid`. */
export async function* decodeBatches(
  stream: ReadableStream<Uint8Array>,
  cid: Cid,
): AsyncGenerator<Entry[], void, undefined> {
  const window = new Window(stream);
  const order = new EntryOrder();
  try {
    const start = await window.see(START.length + 9);
    if (compareBytes(start.subarray(0, START.length), START) !== 0) {
      throw wrongManifest("it is not a map with the one key 'entries', a list");
    }
    const { count, length } = decodeListHead(start.subarray(START.length));
    window.skip(START.length + length);
    for (let left = count; left > 0;) {
      const bytes = await window.see(MAX_ENTRY);
      const reader = new EntryReader(bytes);
      const batch: Entry[] = [];
      // The last of what is seen may be an entry in part.
      const enough = window.ended ? Infinity : bytes.length - MAX_ENTRY;
      while (left > 0 && batch.length < BATCH && reader.at <= enough) {
        const entry = reader.next();
        order.add(entry.path);
        batch.push(entry);
        left--;
      }
      window.skip(reader.at);
      yield batch;
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

  /** Whether nothing follows what was seen last. */
  get ended(): boolean {
    return this.#ended;
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
