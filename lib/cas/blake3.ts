/**
 * @module BLAKE3 (https://github.com/BLAKE3-team/BLAKE3-specs): the plain hash with 32 bytes, of whole arrays and of
 * streams. The kernel hashes pieces of at most 64 KiB; the tree above a piece is made here.
 */

import { Buffer } from "node:buffer";
import { inflateRawSync } from "node:zlib";
import { CHUNK, INPUT, KERNEL, PIECE, ROOT, VALUES } from "./blake3_wasm.ts";

/** Bytes of a digest and of a chaining value. */
const VALUE = 32;
const CHUNKS_PER_PIECE = PIECE / CHUNK;

/** The functions of the kernel: see scripts/blake3/kernel.ts. */
interface Kernel {
  readonly memory: Uint8Array<ArrayBuffer>;
  chunks(count: number, low: number, high: number): void;
  chunk(index: number, length: number, low: number, high: number, flags: number): void;
  parents(count: number): void;
  parent(index: number, flags: number): void;
}

let loaded: Kernel | undefined;

/** The kernel, compiled at the first use. One instance serves all: each use of its memory is one synchronous call. */
function load(): Kernel {
  if (loaded !== undefined) return loaded;
  const module = new WebAssembly.Module(
    Uint8Array.from(inflateRawSync(Buffer.from(KERNEL, "base64"))),
  );
  const exports = new WebAssembly.Instance(module).exports as unknown as
    & Omit<Kernel, "memory">
    & { memory: { buffer: ArrayBuffer } };
  const { chunks, chunk, parents, parent } = exports;
  loaded = { memory: new Uint8Array(exports.memory.buffer), chunks, chunk, parents, parent };
  return loaded;
}

/**
 * The value at the top of the tree over the first `length` bytes (at most a piece) of the input, which are the bytes
 * from chunk `first` on: left as value 0. With `root` it is the digest.
 */
function hashInput(kernel: Kernel, length: number, first: number, root: boolean): void {
  const { memory } = kernel;
  const low = first | 0;
  const high = Math.floor(first / 2 ** 32);
  memory.fill(0, INPUT + length, INPUT + Math.min(PIECE, (length + 63) & ~63 || 64));
  if (length <= CHUNK) return kernel.chunk(0, length, low, high, root ? ROOT : 0);
  const whole = Math.floor(length / CHUNK);
  // Four at once cost less than two one by one, so two or three are hashed with whatever lies behind them.
  const grouped = whole % 4 === 1 ? whole - 1 : (whole + 3) & ~3;
  if (grouped > 0) kernel.chunks(grouped, low, high);
  if (grouped < whole) kernel.chunk(grouped, CHUNK, low + grouped, high, 0);
  const rest = length - whole * CHUNK;
  if (rest > 0) kernel.chunk(whole, rest, low + whole, high, 0);
  reduce(kernel, rest > 0 ? whole + 1 : whole, root);
}

/** Pair the first `count` (two or more) values until one is left. An odd one out goes up a level as it is. */
function reduce(kernel: Kernel, count: number, root: boolean): void {
  while (count > 1) {
    const pairs = count >>> 1;
    const grouped = pairs & ~3;
    if (grouped > 0) kernel.parents(grouped);
    for (let i = grouped; i < pairs; i++) kernel.parent(i, root && count === 2 ? ROOT : 0);
    if (count & 1) {
      const odd = VALUES + (count - 1) * VALUE;
      kernel.memory.copyWithin(VALUES + pairs * VALUE, odd, odd + VALUE);
    }
    count = pairs + (count & 1);
  }
}

/** A hash in the making. */
export interface Hasher {
  /** Take the next bytes. They are read before it returns. */
  update(bytes: Uint8Array): void;
  /**
   * Take the next pieces by their values, 32 bytes each: see {@linkcode pieceValue}. Only whole pieces came so far, and
   * more bytes follow.
   */
  take(values: Uint8Array): void;
  /** The 32-byte digest of the bytes so far. More may follow. */
  digest(): Uint8Array<ArrayBuffer>;
}

/**
 * Pieces that are surely not the last go up the tree at once; a last piece, whole or not, waits, because the top of
 * the tree is hashed in another way than the rest.
 */
class StreamHasher implements Hasher {
  readonly #kernel = load();
  /** Values of whole subtrees, the largest first: one for each bit of the number of pieces. */
  readonly #stack: Uint8Array<ArrayBuffer>[] = [];
  #pieces = 0;
  readonly #pending = new Uint8Array(PIECE);
  #held = 0;

  update(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#held === PIECE) {
        this.#push(this.#pending);
        this.#held = 0;
      }
      const left = bytes.length - at;
      if (this.#held === 0 && left > PIECE) {
        this.#push(bytes.subarray(at, at + PIECE));
        at += PIECE;
      } else {
        const take = Math.min(PIECE - this.#held, left);
        this.#pending.set(bytes.subarray(at, at + take), this.#held);
        this.#held += take;
        at += take;
      }
    }
  }

  digest(): Uint8Array<ArrayBuffer> {
    const { memory } = this.#kernel;
    memory.set(this.#pending.subarray(0, this.#held), INPUT);
    hashInput(
      this.#kernel,
      this.#held,
      this.#pieces * CHUNKS_PER_PIECE,
      this.#stack.length === 0,
    );
    for (let i = this.#stack.length - 1; i >= 0; i--) this.#join(i, i === 0);
    return memory.slice(VALUES, VALUES + VALUE);
  }

  take(values: Uint8Array): void {
    if (this.#held === PIECE) this.#push(this.#pending);
    else if (this.#held > 0) throw new Error("a piece is taken within another");
    this.#held = 0;
    for (let at = 0; at < values.length; at += VALUE) {
      this.#kernel.memory.set(values.subarray(at, at + VALUE), VALUES);
      this.#stackValue();
    }
  }

  #push(piece: Uint8Array): void {
    this.#kernel.memory.set(piece, INPUT);
    hashInput(this.#kernel, PIECE, this.#pieces * CHUNKS_PER_PIECE, false);
    this.#stackValue();
  }

  /** Value 0 is that of the next piece. */
  #stackValue(): void {
    this.#pieces++;
    for (let left = this.#pieces; left % 2 === 0; left /= 2) {
      this.#join(this.#stack.length - 1, false);
      this.#stack.pop();
    }
    this.#stack.push(this.#kernel.memory.slice(VALUES, VALUES + VALUE));
  }

  /** Value 0 becomes the parent of subtree `index` of the stack and itself. */
  #join(index: number, root: boolean): void {
    const { memory } = this.#kernel;
    memory.copyWithin(VALUES + VALUE, VALUES, VALUES + VALUE);
    memory.set(this.#stack[index] ?? [], VALUES);
    this.#kernel.parent(0, root ? ROOT : 0);
  }
}

/** Start to hash a stream of bytes of any length. */
export function createHasher(): Hasher {
  return new StreamHasher();
}

/** The 32-byte BLAKE3 digest of `bytes`. */
export function blake3(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (bytes.length > PIECE) {
    const hasher = new StreamHasher();
    hasher.update(bytes);
    return hasher.digest();
  }
  const kernel = load();
  kernel.memory.set(bytes, INPUT);
  hashInput(kernel, bytes.length, 0, true);
  return kernel.memory.slice(VALUES, VALUES + VALUE);
}

/** Bytes of a piece of {@linkcode pieceValue}. */
export const HASH_PIECE = PIECE;

/**
 * The value of whole piece `index` of an input that goes on behind it: pieces may be hashed in any order, and
 * {@linkcode joinPieces} makes the digest of them.
 */
export function pieceValue(piece: Uint8Array, index: number): Uint8Array<ArrayBuffer> {
  const kernel = load();
  kernel.memory.set(piece, INPUT);
  hashInput(kernel, PIECE, index * CHUNKS_PER_PIECE, false);
  return kernel.memory.slice(VALUES, VALUES + VALUE);
}

/**
 * The digest of an input whose pieces have the `values`, 32 bytes each, and which ends with `last`: one byte to a whole
 * piece that `values` lacks, or nothing when they are empty, too.
 */
export function joinPieces(values: Uint8Array, last: Uint8Array): Uint8Array<ArrayBuffer> {
  const hasher = new StreamHasher();
  hasher.take(values);
  hasher.update(last);
  return hasher.digest();
}
