/** @module The store's HTTP service: answers with a blob, a part of one, or what is known of one. */

import type { BlobBody, Cas, Cid, Ranged, Sized } from "./contract.ts";
import { isCid, rawCid, sameBlob } from "./cid.ts";
import { EMPTY } from "./empty.ts";
import { acceptsZstd } from "./http_encoding.ts";
import { type Gate, type Transfer } from "./http_limits.ts";
import { parseRange, type Range, resolveRange } from "./http_range.ts";
import { absent, lacks, Refusal } from "./http_refusal.ts";
import { CHECK_HEADER, LENGTH_HEADER } from "./http_wire.ts";
import type { Frame, Serving } from "./serving.ts";
import { BytesBody, streamOfNext } from "./streams.ts";

/** A store, and what it offers besides. */
export type Served = Cas & Partial<Ranged & Sized> & Serving;

/** Who asks, and how the answer is sent. */
export interface Asked {
  readonly token: string;
  /**
   * Whether the answer goes to a peer: what sends it has passed a piece on before it asks for the next. Who calls the
   * service within the process may gather pieces.
   */
  readonly sent: boolean;
}

/** Headers that every answer with the blob has. */
export function headersOf(cid: Cid, length: number | null): Record<string, string> {
  const headers: Record<string, string> = {
    "content-type": "application/octet-stream",
    etag: `"${rawCid(cid)}"`,
    "accept-ranges": "bytes",
  };
  if (length !== null) headers["content-length"] = String(length);
  return headers;
}

/** Whoever asks before a put is told that it may come compressed (RFC 9110, section 12.5.3). */
const TAKES_ZSTD = { "accept-encoding": "zstd" };

/** Headers of a GET that ask for anything else than the whole blob as it is. */
const SPECIAL = ["range", "if-none-match", "accept-encoding"] as const;

/** The answer to a plain GET of a small blob, or to a HEAD, at once. Null: it takes longer. */
export function quick(cas: Served, request: Request, cid: Cid): Response | null {
  const { headers } = request;
  if (request.method === "HEAD") {
    if (headers.has(CHECK_HEADER) || headers.has("if-none-match")) return null;
    const length = cas.sizeAtHand?.(cid) ?? null;
    return length === null ? null : new Response(null, { headers: headersOf(cid, length) });
  }
  for (const name of SPECIAL) {
    const value = headers.get(name);
    if (value !== null && (name !== "accept-encoding" || acceptsZstd(value))) return null;
  }
  const data = cas.atHand?.(cid) ?? null;
  if (data === null) return null;
  return new Response(data, { headers: headersOf(cid, data.length) });
}

/** The answer to a HEAD. */
export async function head(cas: Served, request: Request, cid: Cid): Promise<Response> {
  const found = await described(cas, request, cid);
  const match = request.headers.get("if-none-match");
  return match !== null && matches(match, cid) ? unchanged(cid) : found;
}

function unchanged(cid: Cid): Response {
  return new Response(null, { status: 304, headers: { etag: `"${rawCid(cid)}"` } });
}

async function described(cas: Served, request: Request, cid: Cid): Promise<Response> {
  if (sameBlob(cid, EMPTY)) return new Response(null, { headers: headersOf(cid, 0) });
  if (cas.sizeOf === undefined) {
    if (!await cas.has(cid)) throw absent(cid);
    return new Response(null, { headers: headersOf(cid, null) });
  }
  const check = request.headers.has(CHECK_HEADER);
  const length = await cas.sizeOf(cid, { check });
  if (length === null) throw check ? new Refusal("not_found", lacks(cid), TAKES_ZSTD) : absent(cid);
  return new Response(null, { headers: headersOf(cid, length) });
}

/** The answer to a GET. */
export async function get(
  cas: Served,
  gate: Gate,
  request: Request,
  cid: Cid,
  asked: Asked,
): Promise<Response> {
  const { headers } = request;
  const match = headers.get("if-none-match");
  if (match !== null && matches(match, cid)) {
    if (!sameBlob(cid, EMPTY) && !await cas.has(cid)) throw absent(cid);
    return unchanged(cid);
  }
  const transfer = gate.begin(asked.token, false);
  try {
    const asks = headers.get("range");
    const range = asks === null ? null : parseRange(asks);
    if (range !== null && cas.getRange !== undefined && isFresh(headers, cid)) {
      return await part(cas, cas as Ranged, cid, range, asked, transfer);
    }
    const zstd = cas.getFrame !== undefined && acceptsZstd(headers.get("accept-encoding"));
    const frame = zstd ? await cas.getFrame?.(cid) ?? null : null;
    if (frame !== null) return await framed(frame, cid, transfer);
    const body = await whole(cas, cid, asked.sent);
    return await answer(body, headersOf(cid, body.length), 200, transfer);
  } catch (error) {
    transfer[Symbol.dispose]();
    throw error;
  }
}

async function whole(cas: Served, cid: Cid, transient: boolean): Promise<BlobBody> {
  if (sameBlob(cid, EMPTY)) return new BytesBody(new Uint8Array(0));
  const body = await cas.getStream(cid, { transient });
  if (body === null) throw absent(cid);
  return body;
}

/** The stored frame as it is. The tag is weak: these are other bytes than those of the blob. */
async function framed(frame: Frame, cid: Cid, transfer: Transfer): Promise<Response> {
  const headers = headersOf(cid, frame.length);
  headers["content-encoding"] = "zstd";
  headers[LENGTH_HEADER] = String(frame.blob);
  headers["vary"] = "accept-encoding";
  headers["etag"] = `W/"${rawCid(cid)}"`;
  return await answer({ length: frame.length, stream: frame.stream }, headers, 200, transfer);
}

async function answer(
  body: BlobBody,
  headers: Record<string, string>,
  status: number,
  transfer: Transfer,
): Promise<Response> {
  if (body.bytes !== undefined) {
    transfer.count(body.bytes.length);
    transfer[Symbol.dispose]();
    return new Response(body.bytes, { status, headers });
  }
  const stream = await paced(body.stream, transfer) as ReadableStream<Uint8Array<ArrayBuffer>>;
  return new Response(stream, { status, headers });
}

/**
 * The pieces of `source`, counted and paced. The transfer ends with it, and it breaks off when the transfer stalls. It
 * resolves with the first piece at hand: what fails before can still be refused, and afterwards only broken off.
 */
async function paced(
  source: ReadableStream<Uint8Array>,
  transfer: Transfer,
): Promise<ReadableStream<Uint8Array>> {
  const reader = source.getReader();
  const close = () => {
    transfer[Symbol.dispose]();
    reader.cancel().catch(() => {});
  };
  transfer.signal.addEventListener("abort", close, { once: true });
  let first: ReadableStreamReadResult<Uint8Array> | null = await reader.read();
  return streamOfNext(async () => {
    transfer.signal.throwIfAborted();
    const { value } = first ?? await reader.read();
    first = null;
    if (value === undefined) {
      transfer.signal.throwIfAborted();
      transfer[Symbol.dispose]();
      return null;
    }
    const wait = transfer.progress(value.length);
    if (wait !== undefined) await wait;
    return value;
  }, { close });
}

async function part(
  cas: Served,
  ranged: Ranged,
  cid: Cid,
  range: Range,
  asked: Asked,
  transfer: Transfer,
): Promise<Response> {
  const body = sameBlob(cid, EMPTY)
    ? await whole(cas, cid, false)
    : await ranged.getRange(cid, range.from, range.to, { transient: asked.sent });
  if (body === null) throw absent(cid);
  const length = body.length ?? 0;
  const found = resolveRange(range, length);
  if (found === null) {
    await body.stream.cancel();
    throw new Refusal(
      "invalid_request",
      `blob ${cid} has ${length} bytes, and none of those that were asked for`,
      { "content-range": `bytes */${length}` },
      416,
    );
  }
  const [first, last] = found;
  const headers = headersOf(cid, last - first + 1);
  headers["content-range"] = `bytes ${first}-${last}/${length}`;
  return await answer(body, headers, 206, transfer);
}

/** Whether a tag in `header` (`If-None-Match`) is the blob's. */
function matches(header: string, cid: Cid): boolean {
  if (header.trim() === "*") return true;
  return header.split(",").some((tag) => {
    const text = tag.trim().replace(/^W\//, "").replace(/^"(.*)"$/, "$1");
    return isCid(text) && sameBlob(text, cid);
  });
}

/** Whether a range may be sent: `If-Range` names the blob, or is not there. */
function isFresh(headers: Headers, cid: Cid): boolean {
  const tag = headers.get("if-range");
  return tag === null || (tag !== "*" && matches(tag, cid));
}
