/** @module Writes the entries of a manifest as bytes. */

import { cidBytes, isCid } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { encodeDrisl } from "./drisl_encode.ts";
import { type Entry, entryValue, isLink, parseEntry } from "./manifest.ts";
import { BLOB, isPlain, isPlainPath, KEY, MAX_PLAIN, TEXT } from "./manifest_entry.ts";

/** No entry in the usual form takes as many bytes. */
const MOST = 1024;
/** The codec of a raw blob, in a CID. */
const RAW = 0x55;

/** Writes entries one after another. */
export class EntryWriter {
  #bytes = new Uint8Array(64 * 1024);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** What was written since the last call. */
  take(): Uint8Array<ArrayBuffer> {
    const taken = this.#bytes.slice(0, this.#length);
    this.#length = 0;
    return taken;
  }

  /** Write `entry`. Throws `integrity`, and `unsafe_path` for a bad path. */
  add(entry: Entry): void {
    this.#room(MOST);
    const start = this.#length;
    if (this.#usual(entry)) return;
    this.#length = start;
    const value = entryValue(entry);
    parseEntry(value);
    const bytes = encodeDrisl(value);
    this.#room(bytes.length);
    this.#raw(bytes);
  }

  /** Write an entry in the usual form; false: it has another, and what was written is to be forgotten. */
  #usual(entry: Entry): boolean {
    if (entry.mtimeNs !== undefined) return false;
    const { path, mode, size } = entry;
    if (!isWhole(mode) || mode > 0o7777 || !isWhole(size)) return false;
    this.#bytes[this.#length++] = 0xa4;
    if (!(isLink(entry) ? this.#link(entry.link) : this.#blob(entry.blob))) return false;
    this.#number(KEY.mode, mode);
    this.#raw(KEY.path);
    if (!this.#plain(path, isPlainPath)) return false;
    this.#number(KEY.size, size);
    return true;
  }

  #blob(blob: Cid): boolean {
    if (!isCid(blob)) return false;
    const cid = cidBytes(blob);
    this.#raw(BLOB);
    this.#raw(cid.subarray(4));
    return cid[1] === RAW;
  }

  #link(target: string): boolean {
    this.#raw(KEY.link);
    return this.#plain(target, isPlain);
  }

  #plain(text: string, isPlain: (bytes: Uint8Array, from: number, to: number) => boolean): boolean {
    if (text.length === 0 || text.length > MAX_PLAIN) return false;
    this.#head(TEXT, text.length);
    const from = this.#length;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      this.#bytes[this.#length++] = code < 128 ? code : 0;
    }
    return isPlain(this.#bytes, from, this.#length);
  }

  #number(key: Uint8Array, value: number): void {
    this.#raw(key);
    this.#head(0, value);
  }

  #head(type: number, value: number): void {
    if (value < 24) return void (this.#bytes[this.#length++] = type | value);
    const size = value < 0x100 ? 1 : value < 0x10000 ? 2 : value < 0x100000000 ? 4 : 8;
    this.#bytes[this.#length] = type | (24 + Math.log2(size));
    for (let i = size, rest = value; i > 0; i--, rest = Math.floor(rest / 256)) {
      this.#bytes[this.#length + i] = rest % 256;
    }
    this.#length += 1 + size;
  }

  #raw(bytes: Uint8Array): void {
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #room(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + more));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}

function isWhole(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
