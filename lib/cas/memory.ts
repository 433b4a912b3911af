/** @module The `memory` provider: blobs in a map, for tests and for stores that need not outlive the process. */

import { cidOf, nameToCid, objectName } from "./cid.ts";
import type {
  BlobBody,
  Cas,
  Cid,
  Collectable,
  Collected,
  Evictable,
  Held,
  Integrity,
  Leftovers,
  Limits,
  Ranged,
  Sized,
  Upkeep,
  Usage,
} from "./contract.ts";
import { isEmpty, noBytes } from "./empty.ts";
import { readSource, writeBeside } from "./files.ts";
import { checkAddress, checkLength } from "./limits.ts";
import { BytesBody, collect, streamOf } from "./streams.ts";

/** A store that forgets everything with its process. */
class MemoryCas implements Cas, Upkeep, Ranged, Sized, Evictable, Collectable {
  readonly #blobs = new Map<string, Uint8Array<ArrayBuffer>>();
  /** When each was last stored or asked for, Unix ms. */
  readonly #storedAt = new Map<string, number>();
  readonly keepEveryMs = 0;

  has(cid: Cid): Promise<boolean> {
    return Promise.resolve(this.#keep(cid));
  }

  missing(cids: readonly Cid[]): Promise<Cid[]> {
    return Promise.resolve(cids.filter((cid) => !this.#keep(cid)));
  }

  #keep(cid: Cid): boolean {
    const name = objectName(cid);
    const found = this.#blobs.has(name);
    if (found) this.#storedAt.set(name, Date.now());
    return found || isEmpty(cid);
  }

  put(data: Uint8Array, limits: Limits = {}): Promise<Cid> {
    return this.putStream(streamOf(data.slice()), limits);
  }

  get(cid: Cid): Promise<Uint8Array<ArrayBuffer> | null> {
    if (isEmpty(cid)) return Promise.resolve(noBytes());
    return Promise.resolve(this.#blobs.get(objectName(cid))?.slice() ?? null);
  }

  async putStream(source: ReadableStream<Uint8Array>, limits: Limits = {}): Promise<Cid> {
    const data = await collect(source, limits);
    const cid = cidOf(data);
    checkAddress(cid, limits);
    const name = objectName(cid);
    this.#blobs.set(name, data);
    this.#storedAt.set(name, Date.now());
    return cid;
  }

  async getStream(cid: Cid, limits: Limits = {}): Promise<BlobBody | null> {
    const data = await this.get(cid);
    if (data === null) return null;
    checkLength(data.length, limits, cid);
    return new BytesBody(data);
  }

  async getRange(cid: Cid, from: number, to?: number): Promise<BlobBody | null> {
    const data = await this.get(cid);
    return data === null ? null : new BytesBody(data.slice(from, to), data.length);
  }

  sizeOf(cid: Cid): Promise<number | null> {
    this.#keep(cid);
    const length = this.#blobs.get(objectName(cid))?.length ?? null;
    return Promise.resolve(isEmpty(cid) ? 0 : length);
  }

  async putFile(path: string): Promise<Cid> {
    return await this.put(await readSource(path));
  }

  async getFile(cid: Cid, path: string): Promise<number | null> {
    const body = await this.getStream(cid);
    return body === null ? null : await writeBeside(path, body.stream);
  }

  usage(): Promise<Usage> {
    let bytes = 0;
    for (const blob of this.#blobs.values()) bytes += blob.length;
    return Promise.resolve({ blobs: this.#blobs.size, bytes });
  }

  async *list(): AsyncIterable<Cid> {
    for await (const { cid } of this.held()) yield cid;
  }

  async *held(): AsyncIterable<Held> {
    for (const [name, { length }] of this.#blobs) {
      const cid = nameToCid(name);
      if (cid !== null) yield { cid, bytes: length, storedAt: this.#storedAt.get(name) ?? 0 };
    }
  }

  release(cid: Cid): Promise<number> {
    const name = objectName(cid);
    const freed = this.#blobs.get(name)?.length ?? 0;
    this.#blobs.delete(name);
    this.#storedAt.delete(name);
    return Promise.resolve(freed);
  }

  async collect(cids: readonly Cid[], graceMs: number): Promise<Collected[]> {
    const collected: Collected[] = [];
    const before = Date.now() - graceMs;
    for (const cid of cids) {
      const at = this.#storedAt.get(objectName(cid));
      if (at !== undefined && at < before) collected.push({ cid, bytes: await this.release(cid) });
    }
    return collected;
  }

  sweep(): Promise<Leftovers> {
    return Promise.resolve({ count: 0, bytes: 0 });
  }

  async integrity(cid: Cid): Promise<Integrity> {
    return await Promise.resolve(isEmpty(cid) || this.#blobs.has(objectName(cid)))
      ? "ok"
      : "missing";
  }
}

/** A fresh store in memory. */
export function openMemory(): Cas & Upkeep & Ranged & Sized & Evictable & Collectable {
  return new MemoryCas();
}
