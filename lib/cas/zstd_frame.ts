/**
 * @module The outside of a zstd frame (RFC 8878): its header and its blocks, without what is compressed in them.
 *
 * The decoders at hand take a truncated frame, and bytes after a frame, for a whole one. {@linkcode FrameScanner} does
 * not. It also lets us write frames of raw blocks ourselves: bytes that do not compress cost nothing that way, and
 * need no decoder.
 */

import { SubletError } from "../home/mod.ts";

const MAGIC = [0x28, 0xb5, 0x2f, 0xfd] as const;

/** Bytes of a block's header. */
export const BLOCK_HEADER = 3;
/** The most bytes of content of a block. */
export const BLOCK_MAX = 128 * 1024;
/** Bytes of the header that we write: magic, descriptor, window, an 8-byte content size. */
export const HEADER = 14;
/** The most bytes of any header. */
export const HEADER_MAX = 18;

/** Type of a block. */
export const BLOCK = { raw: 0, rle: 1, compressed: 2 } as const;

// An 8-byte content size, no checksum, no dictionary.
const OUR_DESCRIPTOR = 0xc0;
/** The window of frames of raw blocks: 128 KiB. Encoders use it for no content of a size that they write in 8 bytes. */
const RAW_WINDOW = 0x38;

/** What a frame's header says. */
export interface FrameHeader {
  /** Bytes of the header itself. */
  readonly bytes: number;
  /** Bytes of the content, when the header says it. */
  readonly contentSize: number | null;
  /** Whether four bytes of checksum follow the last block. */
  readonly checksum: boolean;
  /** Whether it is the header of our frames of raw blocks. */
  readonly ours: boolean;
}

function damaged(what: string): SubletError {
  return new SubletError("integrity", `it is no whole zstd frame: ${what}`);
}

/**
 * The header of the frame that starts with `bytes`, or null when more bytes are needed. Throws `integrity` for what is
 * no zstd frame, or needs a dictionary.
 */
export function parseHeader(bytes: Uint8Array): FrameHeader | null {
  for (let i = 0; i < Math.min(4, bytes.length); i++) {
    if (bytes[i] !== MAGIC[i]) throw damaged("it starts with other bytes");
  }
  const descriptor = bytes[4];
  if (descriptor === undefined) return null;
  if ((descriptor & 0x08) !== 0) throw damaged("a reserved bit of its header is set");
  if ((descriptor & 0x03) !== 0) throw damaged("it needs a dictionary");
  const single = (descriptor & 0x20) !== 0;
  const sizeBytes = [single ? 1 : 0, 2, 4, 8][descriptor >>> 6] ?? 0;
  const from = single ? 5 : 6;
  if (bytes.length < from + sizeBytes) return null;
  return {
    bytes: from + sizeBytes,
    contentSize: sizeBytes === 0 ? null : readSize(bytes, from, sizeBytes),
    checksum: (descriptor & 0x04) !== 0,
    ours: descriptor === OUR_DESCRIPTOR && bytes[5] === RAW_WINDOW,
  };
}

/** The window of level 3, at which every writer of such stores compresses. */
const LEVEL_3_WINDOW = 0x58;

/** Contents from this size on have a size of 8 bytes from any encoder. */
const LONG_SIZE = 2 ** 32;

/**
 * Whether bits of the header at the start of `bytes`, which decodes, have changed that a decoder does not look at, or
 * that only give it more memory than it needs. Headers that some encoder may write are taken for right: of one without
 * a size, that is every window that is a power of two.
 */
export function isAltered(bytes: Uint8Array): boolean {
  const header = parseHeader(bytes);
  const [descriptor = 0, window = 0] = bytes.subarray(4, 6);
  if (header === null) return false;
  // Unused, and 0 from every encoder that keeps to RFC 8878.
  if ((descriptor & 0x10) !== 0) return true;
  if ((descriptor & 0x20) !== 0) return false;
  const { contentSize } = header;
  if (contentSize === null) return (window & 0x07) !== 0;
  // Nobody but this program writes so long a size of so little.
  const isOurs = descriptor >>> 6 === 3 && contentSize < LONG_SIZE;
  return isOurs && window !== RAW_WINDOW && window !== LEVEL_3_WINDOW;
}

function readSize(bytes: Uint8Array, at: number, count: number): number {
  let size = 0;
  for (let i = count - 1; i >= 0; i--) size = size * 256 + (bytes[at + i] ?? 0);
  if (!Number.isSafeInteger(size)) throw damaged("its content size is beyond reason");
  return count === 2 ? size + 256 : size;
}

/** Write our header to `target`: with `window`, the window byte of another encoder, or that of raw frames. */
export function writeHeader(target: Uint8Array, contentSize: number, window = RAW_WINDOW): void {
  target.set(MAGIC, 0);
  target[4] = OUR_DESCRIPTOR;
  target[5] = window;
  for (let i = 0, left = contentSize; i < 8; i++, left = Math.floor(left / 256)) {
    target[6 + i] = left % 256;
  }
}

/** Write a block's header to `target` at `at`. */
export function writeBlockHeader(
  target: Uint8Array,
  at: number,
  type: number,
  size: number,
  last: boolean,
): void {
  const word = (size << 3) | (type << 1) | (last ? 1 : 0);
  target[at] = word & 0xff;
  target[at + 1] = (word >>> 8) & 0xff;
  target[at + 2] = word >>> 16;
}

/** One frame of raw blocks with `data`. */
export function rawFrame(data: Uint8Array): Uint8Array<ArrayBuffer> {
  const blocks = Math.max(1, Math.ceil(data.length / BLOCK_MAX));
  const frame = new Uint8Array(HEADER + blocks * BLOCK_HEADER + data.length);
  writeHeader(frame, data.length);
  let at = HEADER;
  for (let i = 0; i < blocks; i++) {
    const part = data.subarray(i * BLOCK_MAX, (i + 1) * BLOCK_MAX);
    writeBlockHeader(frame, at, BLOCK.raw, part.length, i === blocks - 1);
    frame.set(part, at + BLOCK_HEADER);
    at += BLOCK_HEADER + part.length;
  }
  return frame;
}

/** A part of a frame, as {@linkcode FrameScanner} passes it on. */
export interface Part {
  /** Type of the block. */
  readonly type: number;
  /** Bytes of it that are here: content of a raw block, the one byte of an RLE block, or compressed bytes. */
  readonly bytes: Uint8Array;
  /** Size field of the block: how often an RLE block repeats its byte. */
  readonly size: number;
}

/**
 * Follows one frame through its bytes, however they are cut. Throws `integrity` for what is no frame, for bytes after
 * its end, and, in {@linkcode FrameScanner.finish}, for an end that did not come.
 */
export class FrameScanner {
  header: FrameHeader | null = null;
  #start = new Uint8Array(0);
  #state: "header" | "block" | "content" | "checksum" | "end" = "header";
  /** Bytes of the block header or checksum so far. */
  #seen = 0;
  #word = 0;
  #left = 0;
  #type = 0;
  #size = 0;
  #last = false;

  /** Take the next bytes and tell `visit` what they hold of blocks. */
  push(bytes: Uint8Array, visit?: (part: Part) => void): void {
    if (this.take(bytes, visit) < bytes.length) throw damaged("bytes follow its end");
  }

  /** Take the next bytes; the same bytes, cut where blocks end. */
  cut(bytes: Uint8Array): Uint8Array[] {
    const pieces: Uint8Array[] = [];
    let from = 0;
    this.push(bytes, (part) => {
      if (this.#left > part.bytes.length) return;
      const to = part.bytes.byteOffset + part.bytes.length - bytes.byteOffset;
      pieces.push(bytes.subarray(from, to));
      from = to;
    });
    if (from < bytes.length) pieces.push(bytes.subarray(from));
    return pieces;
  }

  /** Like {@linkcode FrameScanner.push}; how many of `bytes` belong to the frame. */
  take(bytes: Uint8Array, visit?: (part: Part) => void): number {
    let at = this.#state === "header" ? this.#readHeader(bytes) : 0;
    while (at < bytes.length && this.#state !== "end") {
      if (this.#state === "block") {
        this.#word += (bytes[at++] ?? 0) * 2 ** (8 * this.#seen++);
        if (this.#seen === BLOCK_HEADER) this.#startBlock();
      } else if (this.#state === "content") {
        const part = bytes.subarray(at, at + this.#left);
        visit?.({ type: this.#type, bytes: part, size: this.#size });
        at += part.length;
        this.#left -= part.length;
        if (this.#left === 0) this.#endBlock();
      } else {
        at++;
        if (++this.#seen === 4) this.#state = "end";
      }
    }
    return at;
  }

  /** Throws `integrity` unless the frame has ended. */
  finish(): void {
    if (this.#state !== "end") throw damaged("it is cut off");
  }

  /** How many of `bytes` belong to the header. */
  #readHeader(bytes: Uint8Array): number {
    const before = this.#start.length;
    const start = new Uint8Array(Math.min(HEADER_MAX, before + bytes.length));
    start.set(this.#start);
    start.set(bytes.subarray(0, start.length - before), before);
    this.header = parseHeader(start);
    this.#start = start;
    if (this.header === null) return bytes.length;
    this.#state = "block";
    return this.header.bytes - before;
  }

  #startBlock(): void {
    this.#last = (this.#word & 1) !== 0;
    this.#type = (this.#word >>> 1) & 3;
    this.#size = this.#word >>> 3;
    this.#word = 0;
    this.#seen = 0;
    if (this.#type === 3) throw damaged("a block has a reserved type");
    if (this.#size > BLOCK_MAX) throw damaged("a block is larger than blocks may be");
    this.#left = this.#type === BLOCK.rle ? 1 : this.#size;
    this.#state = "content";
    if (this.#left === 0) this.#endBlock();
  }

  #endBlock(): void {
    if (!this.#last) this.#state = "block";
    else this.#state = this.header?.checksum ? "checksum" : "end";
  }
}
