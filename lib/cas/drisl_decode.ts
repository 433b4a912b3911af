/** @module The value of DRISL bytes, strictly: one value has one form. */

import { cidOfDigest, drislCid } from "./cid.ts";
import { compareKeys, type Drisl, Link, LINK_TAG, malformed, MAX_DEPTH, MAX_INT } from "./drisl.ts";

/** A text of at most this many bytes is read without the decoder. */
const SHORT = 256;

class Reader {
  #at = 0;
  readonly #view: DataView;
  readonly #text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  constructor(readonly bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** How many bytes were read. */
  get at(): number {
    return this.#at;
  }

  /** The number of items of a list, whose head is next. */
  listHead(): number {
    const head = this.#take(1)[0] ?? 0;
    if (head >> 5 !== 4) throw malformed("a list was expected");
    return Number(this.#argument(head & 31));
  }

  get done(): boolean {
    return this.#at === this.bytes.length;
  }

  #take(count: number): Uint8Array {
    if (count > this.bytes.length - this.#at) throw malformed("it ends too soon");
    this.#at += count;
    return this.bytes.subarray(this.#at - count, this.#at);
  }

  /** The argument of a head: a bigint only in its 8-byte form. */
  #argument(info: number): number | bigint {
    if (info < 24) return info;
    if (info > 27) throw malformed("it has an indefinite or reserved length");
    const size = 1 << (info - 24);
    const start = this.#at;
    this.#take(size);
    const value = size === 1
      ? this.#view.getUint8(start)
      : size === 2
      ? this.#view.getUint16(start)
      : size === 4
      ? this.#view.getUint32(start)
      : this.#view.getBigUint64(start);
    const smallest = size === 1 ? 24 : 2 ** (size * 4);
    if (value < smallest) throw malformed("a number is not in its shortest form");
    return value;
  }

  #count(info: number): number {
    const value = this.#argument(info);
    // Each item takes at least one byte, so a count beyond the bytes is a lie that must not make us allocate.
    if (value > this.bytes.length - this.#at) throw malformed("it ends too soon");
    return Number(value);
  }

  #string(bytes: Uint8Array): string {
    // Paths and keys are short and mostly ASCII: a call of the decoder costs more than their bytes.
    if (bytes.length <= SHORT && bytes.every((byte) => byte < 128)) {
      return String.fromCharCode(...bytes);
    }
    try {
      return this.#text.decode(bytes);
    } catch {
      throw malformed("a text is not UTF-8");
    }
  }

  read(depth = 0): Drisl {
    if (depth > MAX_DEPTH) throw malformed("it is nested too deep");
    const head = this.#take(1)[0] ?? 0;
    const info = head & 31;
    switch (head >> 5) {
      case 0:
        return integer(this.#argument(info));
      case 1:
        return integer(-1n - BigInt(this.#argument(info)));
      case 2:
        return this.#take(this.#count(info)).slice();
      case 3:
        return this.#string(this.#take(this.#count(info)));
      case 4:
        return Array.from({ length: this.#count(info) }, () => this.read(depth + 1));
      case 5:
        return this.#map(this.#count(info), depth);
      case 6:
        return this.#link(info);
      default:
        if (head === 0xf4) return false;
        if (head === 0xf5) return true;
        if (head === 0xf6) return null;
        throw malformed("it has a float or a simple value");
    }
  }

  #map(count: number, depth: number): Drisl {
    const map: { [key: string]: Drisl } = Object.create(null);
    let before: Uint8Array | null = null;
    for (let i = 0; i < count; i++) {
      const head = this.#take(1)[0] ?? 0;
      if (head >> 5 !== 3) throw malformed("a key of a map is not a text");
      const bytes = this.#take(this.#count(head & 31));
      const key = this.#string(bytes);
      if (before !== null && compareKeys(before, bytes) >= 0) {
        throw malformed(`the keys of a map are not in order, or repeat, at ${JSON.stringify(key)}`);
      }
      before = bytes;
      map[key] = this.read(depth + 1);
    }
    return map;
  }

  #link(info: number): Link {
    if (this.#argument(info) !== LINK_TAG) throw malformed("it has a tag other than 42");
    const head = this.#take(1)[0] ?? 0;
    const bytes = head >> 5 === 2 ? this.#take(this.#count(head & 31)) : null;
    const codec = bytes?.[2];
    const known = bytes?.length === 37 && bytes[0] === 0 && bytes[1] === 1 &&
      (codec === 0x55 || codec === 0x71) && bytes[3] === 0x1e && bytes[4] === 0x20;
    if (!known || bytes === null) throw malformed("a link is no BLAKE3 CID");
    const digest = bytes.slice(5);
    return new Link(codec === 0x71 ? drislCid(digest) : cidOfDigest(digest));
  }
}

function integer(value: number | bigint): number | bigint {
  if (typeof value === "number") return value;
  if (value > MAX_INT || value < -MAX_INT - 1n) throw malformed("an integer is beyond 64 bits");
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** The value of `bytes`, which must be its one canonical form: else `integrity`. */
export function decodeDrisl(bytes: Uint8Array): Drisl {
  const reader = new Reader(bytes);
  const value = reader.read();
  if (!reader.done) throw malformed("more bytes follow it");
  return value;
}

/** The value that `bytes` start with, and how many bytes it takes. Throws `integrity` as {@linkcode decodeDrisl} does. */
export function decodeFirst(bytes: Uint8Array): { readonly value: Drisl; readonly length: number } {
  const reader = new Reader(bytes);
  const value = reader.read();
  return { value, length: reader.at };
}

/** The number of items of the list that `bytes` start with, and how many bytes its head takes. Throws `integrity`. */
export function decodeListHead(
  bytes: Uint8Array,
): { readonly count: number; readonly length: number } {
  const reader = new Reader(bytes);
  return { count: reader.listHead(), length: reader.at };
}
