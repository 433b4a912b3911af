/** @module Reads the entries of a manifest from its bytes. */

import { Buffer } from "node:buffer";
import { cidOfDigest } from "./cid.ts";
import { MAX_INT } from "./drisl.ts";
import { decodeFirst } from "./drisl_decode.ts";
import { type Entry, parseEntry } from "./manifest.ts";
import { BLOB, isPlain, isPlainPath, KEY, MAX_PLAIN, TEXT } from "./manifest_entry.ts";

const DIGEST = 32;

/** Reads entries one after another. */
export class EntryReader {
  readonly #bytes: Uint8Array;
  readonly #text: Buffer;
  #at: number;

  /** Reads `bytes` from `at` on. */
  constructor(bytes: Uint8Array, at = 0) {
    this.#bytes = bytes;
    this.#text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#at = at;
  }

  /** How far it has come. */
  get at(): number {
    return this.#at;
  }

  /** The next entry. Throws `integrity`, and `unsafe_path` for a bad path. */
  next(): Entry {
    const start = this.#at;
    const entry = this.#usual();
    if (entry !== null) return entry;
    const { value, length } = decodeFirst(this.#bytes.subarray(start));
    this.#at = start + length;
    return parseEntry(value);
  }

  /** An entry in the usual form, or null. */
  #usual(): Entry | null {
    const keys = this.#bytes[this.#at++];
    if (keys !== 0xa4 && keys !== 0xa5) return null;
    const digest = this.#is(BLOB) ? this.#skip(DIGEST) : -1;
    const link = digest < 0 && this.#is(KEY.link) ? this.#plain(false) : null;
    if (digest < 0 && link === null) return null;
    const mode = this.#whole(KEY.mode);
    if (mode < 0 || mode > 0o7777 || !this.#is(KEY.path)) return null;
    const path = this.#plain(true);
    if (path === null) return null;
    const size = this.#whole(KEY.size);
    const mtimeNs = keys === 0xa5 ? this.#time() : undefined;
    if (size < 0 || mtimeNs === null || this.#at > this.#bytes.length) return null;
    const entry: Entry = link === null
      ? { path, mode, size, blob: cidOfDigest(this.#bytes.subarray(digest, digest + DIGEST)) }
      : { path, mode, size, link };
    return mtimeNs === undefined ? entry : { ...entry, mtimeNs };
  }

  /** Pass over `count` bytes; where they start. */
  #skip(count: number): number {
    this.#at += count;
    return this.#at - count;
  }

  #is(wanted: Uint8Array): boolean {
    const at = this.#at;
    for (let i = 0; i < wanted.length; i++) {
      if (this.#bytes[at + i] !== wanted[i]) return false;
    }
    this.#at = at + wanted.length;
    return true;
  }

  /** A short text in plain characters, that of a path or not; null: it is another. */
  #plain(isPath: boolean): string | null {
    const head = this.#bytes[this.#at++] ?? 0;
    let length = head - TEXT;
    if (head === TEXT + 24) length = this.#bytes[this.#at++] ?? 0;
    if (length <= 0 || length > MAX_PLAIN || (head === TEXT + 24) !== (length >= 24)) return null;
    const from = this.#skip(length);
    const plain = isPath ? isPlainPath : isPlain;
    return plain(this.#bytes, from, this.#at)
      ? this.#text.toString("latin1", from, this.#at)
      : null;
  }

  /** The whole number from 0 on, in its one form, that follows `key`; -1: none does. */
  #whole(key: Uint8Array): number {
    if (!this.#is(key)) return -1;
    const head = this.#bytes[this.#at++] ?? 0xff;
    if (head < 24) return head;
    if (head > 27) return -1;
    const size = 1 << (head - 24);
    let value = 0;
    for (let i = 0; i < size; i++) value = value * 256 + (this.#bytes[this.#at++] ?? 0);
    const least = size === 1 ? 24 : 2 ** (size * 4);
    return value >= least && value <= Number.MAX_SAFE_INTEGER ? value : -1;
  }

  /** A time as times of these days are: a number of eight bytes. Null: it is another. */
  #time(): bigint | null {
    if (!this.#is(KEY.mtime) || this.#bytes[this.#at] !== 0x1b) return null;
    if (this.#at + 9 > this.#bytes.length) return null;
    const time = this.#text.readBigUInt64BE(this.#at + 1);
    this.#at += 9;
    return time > 0xffffffffn && time <= MAX_INT ? time : null;
  }
}
