/** @module From a stored object, one zstd frame by any encoder, to the bytes of its blob. */

import { zstdDecompressSync } from "node:zlib";
import { messageOf, SubletError } from "../home/mod.ts";
import { concat } from "./streams.ts";
import { createDecoder, DECODER } from "./zstd_steps.ts";
import { BLOCK, type FrameHeader, FrameScanner, parseHeader, type Part } from "./zstd_frame.ts";

/** A frame of ours that has a block of another type after all: it is decoded anew, by the library. */
const NOT_RAW = Symbol("not raw");

function undecodable(error: unknown): never {
  throw new SubletError("integrity", `it cannot be decompressed: ${messageOf(error)}`, {
    cause: error,
  });
}

/** `bytes` without what Node's `Buffer` does otherwise than an array of bytes. */
function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** The content of a raw or RLE block's part. Throws {@linkcode NOT_RAW} for a compressed one. */
function contentOf(part: Part): Uint8Array {
  if (part.type === BLOCK.raw) return part.bytes;
  if (part.type === BLOCK.rle) return new Uint8Array(part.size).fill(part.bytes[0] ?? 0);
  throw NOT_RAW;
}

/**
 * The content of the whole frame `frame`, or null when it is too large for that and has to be streamed. Throws
 * `integrity` when it is not exactly one frame.
 */
export function decodeSmall(frame: Uint8Array, maxLength: number): Uint8Array | null {
  const scanner = new FrameScanner();
  const parts: Uint8Array[] = [];
  let raw = true;
  let length = 0;
  scanner.push(frame, (part) => {
    raw = raw && part.type !== BLOCK.compressed;
    length += part.type === BLOCK.rle ? part.size : part.bytes.length;
    if (raw && length <= maxLength) parts.push(contentOf(part));
  });
  scanner.finish();
  if (length > maxLength) return null;
  if (!raw) return decompressSmall(frame, maxLength);
  const only = parts.length === 1 ? parts[0] : undefined;
  checkSize(length, scanner.header);
  return only ?? concat(parts, length);
}

function decompressSmall(frame: Uint8Array, maxLength: number): Uint8Array | null {
  const size = new FrameScanner();
  size.push(frame);
  const announced = size.header?.contentSize ?? null;
  if (announced !== null && announced > maxLength) return null;
  try {
    const content = zstdDecompressSync(frame, { ...DECODER, maxOutputLength: maxLength });
    checkSize(content.length, size.header);
    return plain(content);
  } catch (error) {
    if ((error as { code?: string }).code === "ERR_BUFFER_TOO_LARGE") return null;
    return undecodable(error);
  }
}

/** Throws `integrity` when the header announced another length than `length`. */
function checkSize(length: number, header: FrameHeader | null): void {
  const announced = header?.contentSize ?? null;
  if (announced !== null && announced !== length) {
    throw new SubletError("integrity", `it has ${length} bytes, its header says ${announced}`);
  }
}

/**
 * The content of the frame that `open` reads, piece by piece. Throws `integrity` as soon as it is not exactly one
 * frame. `open` is called again only for a frame that mixes blocks in a way that no known encoder does.
 */
export async function* decode(
  open: () => AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  let delivered = 0;
  try {
    for await (const bytes of decodeOnce(open())) {
      delivered += bytes.length;
      yield bytes;
    }
    return;
  } catch (error) {
    if (error !== NOT_RAW) throw error;
  }
  for await (const bytes of decompress(open())) {
    const skip = Math.min(delivered, bytes.length);
    delivered -= skip;
    if (skip < bytes.length) yield bytes.subarray(skip);
  }
}

async function* decodeOnce(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const chunks = source[Symbol.asyncIterator]();
  let start: Uint8Array = new Uint8Array(0);
  let ended = false;
  async function* whole() {
    try {
      if (start.length > 0) yield start;
      while (!ended) {
        const { done, value } = await chunks.next();
        if (done) return;
        yield value;
      }
    } finally {
      await chunks.return?.();
    }
  }
  let header: FrameHeader | null = null;
  while (header === null && !ended) {
    const { done, value } = await chunks.next();
    ended = done === true;
    if (value !== undefined) {
      start = start.length === 0 ? value : concat([start, value], start.length + value.length);
      header = parseHeader(start);
    }
  }
  yield* header === null || header.ours ? decodeRaw(whole()) : decompress(whole());
}

/** The content of a frame of ours, without a decoder. Throws {@linkcode NOT_RAW} when a block is compressed. */
async function* decodeRaw(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const scanner = new FrameScanner();
  const parts: Part[] = [];
  let length = 0;
  for await (const bytes of source) {
    scanner.push(bytes, (part) => {
      if (part.type === BLOCK.compressed) throw NOT_RAW;
      parts.push(part);
    });
    // Not before it is asked for: a block of a few bytes may stand for 128 KiB.
    for (const part of parts) {
      const content = contentOf(part);
      length += content.length;
      yield content;
    }
    parts.length = 0;
  }
  scanner.finish();
  checkSize(length, scanner.header);
}

/** The content of a frame by any encoder. */
async function* decompress(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const scanner = new FrameScanner();
  const decoder = createDecoder();
  let length = 0;
  try {
    for await (const bytes of source) {
      for (const piece of scanner.cut(bytes)) {
        for (const part of await decoder.write(piece).catch(undecodable)) {
          length += part.length;
          yield part;
        }
      }
    }
    scanner.finish();
    for (const part of await decoder.end().catch(undecodable)) {
      length += part.length;
      yield part;
    }
  } finally {
    decoder.close();
  }
  checkSize(length, scanner.header);
}
