/** @module Many small parts of a stream become few: a session of a day is sent in tens of thousands. */

import type { Cas } from "../cas/mod.ts";
import { type Log, messageOf } from "../home/mod.ts";
import type { Db } from "../store/mod.ts";
import { joined, partBytes } from "./stream_read.ts";
import {
  countParts,
  joinParts,
  partsFrom,
  type StreamKey,
  type StreamPart,
} from "./stream_store.ts";

/** A stream of more parts than this is looked through. */
const MANY = 256;
/** Parts up to this many bytes are joined. */
const SMALL = 64 * 1024;
/** Up to so many bytes together. */
const JOINED = 1024 * 1024;
/** After so many parts that were added a stream is counted. */
const EVERY = 64;
/** How many streams are counted at once. */
const COUNTED = 10_000;

/** Joins parts in the background. */
export class PartJoiner {
  readonly #db: Db;
  readonly #cas: Cas;
  readonly #log: Log;
  readonly #added = new Map<string, number>();
  readonly #running = new Map<string, Promise<void>>();

  constructor(db: Db, cas: Cas, log: Log) {
    this.#db = db;
    this.#cas = cas;
    this.#log = log;
  }

  /** A part was added to the stream. */
  added(key: StreamKey): void {
    const name = `${key.lease} ${key.stream}`;
    const count = (this.#added.get(name) ?? 0) + 1;
    if (count < EVERY) {
      if (this.#added.size >= COUNTED) this.#added.clear();
      this.#added.set(name, count);
      return;
    }
    this.#added.delete(name);
    if (this.#running.has(name)) return;
    const work = this.#join(key)
      .catch((error) => this.#log.event("streams.not_joined", { ...key, error: messageOf(error) }))
      .finally(() => this.#running.delete(name));
    this.#running.set(name, work);
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    await Promise.all(this.#running.values());
  }

  async #join(key: StreamKey): Promise<void> {
    const parts = await this.#db.read(async (tx) =>
      await countParts(tx, key) <= MANY ? [] : await partsFrom(tx, key, 0, Number.MAX_SAFE_INTEGER)
    );
    for (const group of groups(parts)) {
      const bytes = await this.#bytes(group);
      if (bytes === null) continue;
      const blob = await this.#cas.put(bytes);
      await this.#db.write((tx) => joinParts(tx, key, group, blob));
    }
  }

  async #bytes(group: readonly StreamPart[]): Promise<Uint8Array | null> {
    const found: Uint8Array[] = [];
    let length = 0;
    for (const part of group) {
      const bytes = await partBytes(this.#cas, part);
      if (bytes === null) return null;
      found.push(bytes);
      length += bytes.length;
    }
    return joined(found, length);
  }
}

/** Runs of small parts that follow one another. */
export function groups(parts: readonly StreamPart[]): StreamPart[][] {
  const found: StreamPart[][] = [];
  let group: StreamPart[] = [];
  let bytes = 0;
  const close = () => {
    if (group.length > 1) found.push(group);
    group = [];
    bytes = 0;
  };
  for (const part of parts) {
    const last = group.at(-1);
    const follows = last === undefined || last.position + last.bytes === part.position;
    if (!follows || part.bytes > SMALL || bytes + part.bytes > JOINED) close();
    if (part.bytes > SMALL) continue;
    group.push(part);
    bytes += part.bytes;
  }
  close();
  return found;
}
