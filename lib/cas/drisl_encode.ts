/** @module A value as its DRISL bytes. */

import { cidBytes } from "./cid.ts";
import { compareKeys, type Drisl, Link, LINK_TAG, malformed, MAX_DEPTH, MAX_INT } from "./drisl.ts";

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
    this.#room(9);
    const view = new DataView(this.#bytes.buffer);
    const at = this.#length;
    if (value < 24) {
      view.setUint8(at, (major << 5) | Number(value));
      this.#length += 1;
    } else if (value < 0x100) {
      view.setUint8(at, (major << 5) | 24);
      view.setUint8(at + 1, Number(value));
      this.#length += 2;
    } else if (value < 0x10000) {
      view.setUint8(at, (major << 5) | 25);
      view.setUint16(at + 1, Number(value));
      this.#length += 3;
    } else if (value < 0x100000000) {
      view.setUint8(at, (major << 5) | 26);
      view.setUint32(at + 1, Number(value));
      this.#length += 5;
    } else {
      view.setUint8(at, (major << 5) | 27);
      view.setBigUint64(at + 1, BigInt(value));
      this.#length += 9;
    }
  }

  #integer(value: number | bigint): void {
    const whole = BigInt(value);
    if (whole > MAX_INT || whole < -MAX_INT - 1n) throw malformed("an integer is beyond 64 bits");
    if (whole >= 0n) this.#head(0, whole);
    else this.#head(1, -1n - whole);
  }

  write(value: Drisl, depth = 0): void {
    if (depth > MAX_DEPTH) throw malformed("it is nested too deep");
    if (value === null) this.#raw(Uint8Array.of(0xf6));
    else if (typeof value === "boolean") this.#raw(Uint8Array.of(value ? 0xf5 : 0xf4));
    else if (typeof value === "bigint") this.#integer(value);
    else if (typeof value === "number") {
      if (!Number.isSafeInteger(value)) throw malformed(`${value} is not a whole number`);
      this.#integer(value);
    } else if (typeof value === "string") {
      if (!value.isWellFormed()) throw malformed("a text has half a surrogate pair");
      const bytes = this.#text.encode(value);
      this.#head(3, bytes.length);
      this.#raw(bytes);
    } else if (value instanceof Uint8Array) {
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
    const items = Object.entries(value).map(([key, item]) => ({
      key,
      bytes: this.#text.encode(key),
      item,
    }));
    items.sort((a, b) => compareKeys(a.bytes, b.bytes));
    this.#head(5, items.length);
    for (const { key, item } of items) {
      this.write(key);
      this.write(item, depth + 1);
    }
  }
}

/** The bytes of `value`. Throws `integrity` when DRISL cannot hold it. */
export function encodeDrisl(value: Drisl): Uint8Array<ArrayBuffer> {
  const writer = new Writer();
  writer.write(value);
  return writer.written;
}
