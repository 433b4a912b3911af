/** @module Parts and lengths of blobs in stores that need not know either. */

import { isError } from "../home/mod.ts";
import type { BlobBody, Cas, Cid, Limits, Ranged, Sized } from "./contract.ts";
import { collect, drain, placesIn, slice, streamFrom } from "./streams.ts";

/** A store that may have parts and lengths. */
export type Readable = Cas & Partial<Ranged & Sized>;

async function* pieces(stream: ReadableStream<Uint8Array>) {
  yield* stream;
}

/** {@linkcode Ranged.getRange} of any store: one that has no parts delivers the whole, from which they are cut. */
export async function rangeIn(
  store: Readable,
  cid: Cid,
  from: number,
  to: number | undefined,
  options: Pick<Limits, "transient">,
): Promise<BlobBody | null> {
  if (store.getRange !== undefined) return await store.getRange(cid, from, to, options);
  const body = await store.getStream(cid);
  if (body === null) return null;
  if (body.length === null) {
    const data = await collect(body.stream);
    return {
      length: data.length,
      stream: streamFrom(pieces(new Blob([data.slice(from, to)]).stream())),
    };
  }
  const { length } = body;
  const cut = slice(pieces(body.stream), ...placesIn(length, from, to));
  return {
    length,
    stream: streamFrom(cut, { close: () => void body.stream.cancel().catch(() => {}) }),
  };
}

/** {@linkcode Sized.sizeOf} of any store: one that does not tell lengths is read. */
export async function sizeIn(
  store: Readable,
  cid: Cid,
  options: { readonly check?: boolean },
): Promise<number | null> {
  if (store.sizeOf !== undefined) return await store.sizeOf(cid, options);
  try {
    const body = await store.getStream(cid);
    if (body === null) return null;
    if (body.length === null || options.check) return await drain(body.stream, {}, () => {});
    await body.stream.cancel();
    return body.length;
  } catch (error) {
    if (isError(error, "integrity")) return null;
    throw error;
  }
}
