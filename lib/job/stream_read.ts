/** @module Bytes of a stream from the CAS: out of its parts, or out of the file that it ended as. */

import type { Cas, Cid, Ranged } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import { MAX_PART_BYTES } from "./stream_shapes.ts";
import type { StreamPart } from "./stream_store.ts";

/** Bytes, and where they start. */
export interface Slice {
  readonly from: number;
  readonly bytes: Uint8Array;
}

/**
 * At most `max` bytes from byte `from` on, out of `parts` in their order, up to the first gap after the first byte. A
 * part that the store lost, or that is not as long as it was said to be, is a gap.
 */
export async function readSlice(
  cas: Cas,
  parts: readonly StreamPart[],
  from: number,
  max: number,
): Promise<Slice> {
  const found: Uint8Array[] = [];
  let start = from;
  let length = 0;
  for (const part of parts) {
    if (length >= max) break;
    const at = start + length;
    if (part.position + part.bytes <= at) continue;
    if (part.position > at && length > 0) break;
    const bytes = await partBytes(cas, part);
    if (bytes === null) {
      if (length > 0) break;
      continue;
    }
    const begin = Math.max(at, part.position);
    if (length === 0) start = begin;
    const slice = bytes.subarray(begin - part.position).subarray(0, max - length);
    found.push(slice);
    length += slice.length;
  }
  return { from: start, bytes: joined(found, length) };
}

/** The bytes of a part, or null for a gap. */
export async function partBytes(cas: Cas, { bytes, blob }: StreamPart): Promise<Uint8Array | null> {
  try {
    const body = await cas.getStream(blob, { maxBytes: MAX_PART_BYTES });
    if (body === null) return null;
    const whole = await new Response(body.stream).bytes();
    return whole.length < bytes ? null : whole.subarray(0, bytes);
  } catch (error) {
    if (error instanceof SubletError && ["too_large", "integrity"].includes(error.code)) {
      return null;
    }
    throw error;
  }
}

/** At most `max` bytes of a blob from byte `from` on. Throws `not_found` when the store lost it. */
export async function sliceOfFile(
  cas: Cas & Partial<Ranged>,
  file: Cid,
  from: number,
  max: number,
): Promise<Slice & { readonly over: boolean }> {
  const lost = () => new SubletError("not_found", `the CAS lost ${file}: it cannot be shown`);
  if (cas.getRange !== undefined) {
    const body = await cas.getRange(file, from, from + max);
    if (body === null) throw lost();
    const bytes = await new Response(body.stream).bytes();
    return { from, bytes, over: body.length !== null && from + bytes.length >= body.length };
  }
  const body = await cas.getStream(file);
  if (body === null) throw lost();
  return await sliceOfStream(body.stream, from, max);
}

/** Reads the whole stream, so that its bytes are checked. */
async function sliceOfStream(
  stream: ReadableStream<Uint8Array>,
  from: number,
  max: number,
): Promise<Slice & { readonly over: boolean }> {
  const found: Uint8Array[] = [];
  let at = 0;
  let length = 0;
  for await (const chunk of stream) {
    const slice = chunk.subarray(Math.max(0, from - at)).subarray(0, max - length);
    if (slice.length > 0) found.push(slice.slice());
    length += slice.length;
    at += chunk.length;
  }
  return { from, bytes: joined(found, length), over: from + length >= at };
}

/** `parts` as one. */
export function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
