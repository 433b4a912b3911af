/** @module A value as its DRISL bytes. */

import { cidBytes } from "./cid.ts";
import { compareKeys, type Drisl, Link, LINK_TAG, malformed, MAX_DEPTH, MAX_INT } from "./drisl.ts";

/** A text of at most this length is written without the encoder. */
const SHORT = 256;

class Writer {
  #bytes = new Uint8Array(1024);
  #length = 0;
  readonly #text = new TextEncoder();

  get written(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #room(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + more));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }

  #raw(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #head(major: number, value: number | bigint): void {
    const type = major << 5;
    if (value < 24) return this.#number(type | Number(value), 0, 0);
    if (value < 0x100) return this.#number(type | 24, Number(value), 1);
    if (value < 0x10000) return this.#number(type | 25, Number(value), 2);
    if (value < 0x100000000) return this.#number(type | 26, Number(value), 4);
    this.#room(9);
    this.#bytes[this.#length] = type | 27;
    new DataView(this.#bytes.buffer).setBigUint64(this.#length + 1, BigInt(value));
    this.#length += 9;
  }

  /** One byte, and `value` in `size` more. */
  #number(byte: number, value: number, size: number): void {
    this.#room(1 + size);
    this.#bytes[this.#length++] = byte;
    for (let shift = 8 * (size - 1); shift >= 0; shift -= 8) {
      this.#bytes[this.#length++] = value >>> shift;
    }
  }

  #string(value: string): void {
    if (!value.isWellFormed()) throw malformed("a text has half a surrogate pair");
    // Paths and keys are short and mostly ASCII: a call of the encoder costs more than their bytes.
    if (value.length <= SHORT && isAscii(value)) {
      this.#head(3, value.length);
      this.#room(value.length);
      for (let i = 0; i < value.length; i++) this.#bytes[this.#length++] = value.charCodeAt(i);
      return;
    }
    const bytes = this.#text.encode(value);
    this.#head(3, bytes.length);
    this.#raw(bytes);
  }

  #integer(value: number | bigint): void {
    if (typeof value === "number" && value >= 0) return this.#head(0, value);
    const whole = BigInt(value);
    if (whole > MAX_INT || whole < -MAX_INT - 1n) throw malformed("an integer is beyond 64 bits");
    if (whole >= 0n) this.#head(0, whole);
    else this.#head(1, -1n - whole);
  }

  listHead(count: number): void {
    this.#head(4, count);
  }

  write(value: Drisl, depth = 0): void {
    if (depth > MAX_DEPTH) throw malformed("it is nested too deep");
    if (value === null) this.#raw(Uint8Array.of(0xf6));
    else if (typeof value === "boolean") this.#raw(Uint8Array.of(value ? 0xf5 : 0xf4));
    else if (typeof value === "bigint") this.#integer(value);
    else if (typeof value === "number") {
      if (!Number.isSafeInteger(value)) throw malformed(`${value} is not a whole number`);
      this.#integer(value);
    } else if (typeof value === "string") this.#string(value);
    else if (value instanceof Uint8Array) {
      this.#head(2, value.length);
      this.#raw(value);
    } else if (value instanceof Link) {
      this.#head(6, LINK_TAG);
      this.#head(2, 37);
      this.#raw(Uint8Array.of(0));
      this.#raw(cidBytes(value.cid));
    } else if (Array.isArray(value)) {
      this.#head(4, value.length);
      for (const item of value) this.write(item, depth + 1);
    } else this.#map(value, depth);
  }

  #map(value: { [key: string]: Drisl }, depth: number): void {
    const keys = Object.keys(value).sort((a, b) => this.#order(a, b));
    this.#head(5, keys.length);
    for (const key of keys) {
      this.#string(key);
      this.write(value[key] ?? null, depth + 1);
    }
  }

  #order(a: string, b: string): number {
    if (isAscii(a) && isAscii(b)) return a.length - b.length || (a < b ? -1 : 1);
    return compareKeys(this.#text.encode(a), this.#text.encode(b));
  }
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 127) return false;
  return true;
}

/** The bytes of `value`. Throws `integrity` when DRISL cannot hold it. */
export function encodeDrisl(value: Drisl): Uint8Array<ArrayBuffer> {
  const writer = new Writer();
  writer.write(value);
  return writer.written;
}

/** What a list of `count` items starts with: the bytes of the items follow. */
export function encodeListHead(count: number): Uint8Array<ArrayBuffer> {
  const writer = new Writer();
  writer.listHead(count);
  return writer.written;
}
