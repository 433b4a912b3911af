/**
 * @module The store's HTTP service: `HEAD`, `GET` and `PUT /v1/cas/<cid>`, and `POST /v1/cas/missing`. Refusals have
 * the body `{code, message}`, and the message names the CID.
 */

import { Hono } from "hono";
import type { Context } from "hono";
import { isError, type Log, messageOf, nullLog, SubletError } from "../home/mod.ts";
import { type NetEnv, onError, readJson } from "../net/mod.ts";
import { isCid, parseCid, rawCid, sameBlob } from "./cid.ts";
import type { BlobBody, Cas, Cid, Ranged, Sized } from "./contract.ts";
import { parseRange, type Range, resolveRange } from "./http_range.ts";
import { CHECK_HEADER, MAX_QUESTION, missingQuestion } from "./http_wire.ts";

/** Blobs up to this size are received into memory. */
const SMALL = 64 * 1024;

/** So many bytes of an upload that is refused are taken, so that its sender can read why. */
const MAX_DRAIN = 64 * 1024 * 1024;

/** How a store is served. */
export interface CasRouteOptions {
  /** Larger blobs are refused with 413. Default: no bound. */
  readonly maxBytes?: number;
  /** Where failures go. Default: nowhere. */
  readonly log?: Log;
}

type Call = Context<NetEnv>;

/** The routes, to be mounted at the root behind whatever says who may call. */
export function casRoutes(cas: Cas, options: CasRouteOptions = {}): Hono<NetEnv> {
  const app = new Hono<NetEnv>();
  const log = options.log ?? nullLog;
  const failed = onError("api", log);
  app.onError(async (error, c) => {
    await drain(c.req.raw);
    const known = named(error, c.req.path);
    const answer = isError(known) && known.code === "internal"
      ? internal(known, failed(known, c))
      : failed(known, c);
    return c.req.method === "HEAD" ? await withLength(answer) : answer;
  });
  app.post("/v1/cas/missing", async (c) => {
    const { cids } = await readJson(c, missingQuestion, MAX_QUESTION);
    return c.json({ missing: await cas.missing(cids) });
  });
  // Hono sends a HEAD here as well, and drops the body of its answer.
  app.get("/v1/cas/:cid", (c) => {
    const cid = parseCid(c.req.param("cid"));
    return c.req.method === "HEAD" ? head(cas, c, cid) : get(cas, c, cid);
  });
  app.put("/v1/cas/:cid", (c) => receive(cas, c, options.maxBytes ?? Infinity));
  app.all("/v1/cas/:cid", async (c) => {
    await drain(c.req.raw);
    const { method, path } = c.req;
    const allow = path.endsWith("/missing") ? "POST" : "GET, HEAD, PUT";
    const message = `${path}: ${method} is not allowed here, only ${allow}`;
    return Response.json({ code: "method_not_allowed", message }, {
      status: 405,
      headers: { allow },
    });
  });
  return app;
}

/** The `answer` to a failure of our own names the blob, too, but not what went wrong in here. */
function internal(error: SubletError, answer: Response): Response {
  const blob = /^blob [a-z2-7]+/.exec(error.message)?.[0] ?? "the store";
  const message = `${blob}: the server failed: its log has the reason`;
  return Response.json({ code: "internal", message }, { status: answer.status });
}

/** `answer`, with the length that a GET's would have: the answer to a HEAD loses its body, and would say 0. */
async function withLength(answer: Response): Promise<Response> {
  const body = await answer.bytes();
  answer.headers.set("content-length", String(body.length));
  return new Response(body, answer);
}

/** `error`, with the blob that `path` names in its message. */
function named(error: Error, path: string): Error {
  const cid = path.slice(path.lastIndexOf("/") + 1);
  if (!isCid(cid)) return error;
  const known = error instanceof SubletError && error.code !== "internal";
  if (known && error.message.includes(cid.slice(7))) return error;
  return new SubletError(known ? error.code : "internal", `blob ${cid}: ${messageOf(error)}`, {
    cause: error,
  });
}

function absent(cid: Cid): SubletError {
  return new SubletError("not_found", `the store has no blob ${cid}`);
}

function headersOf(cid: Cid, length: number | null): Record<string, string> {
  const headers: Record<string, string> = {
    "content-type": "application/octet-stream",
    etag: `"${rawCid(cid)}"`,
    "accept-ranges": "bytes",
  };
  if (length !== null) headers["content-length"] = String(length);
  return headers;
}

async function head(cas: Cas & Partial<Sized>, c: Call, cid: Cid): Promise<Response> {
  if (cas.sizeOf === undefined) {
    if (!await cas.has(cid)) throw absent(cid);
    return new Response(null, { headers: headersOf(cid, null) });
  }
  const length = await cas.sizeOf(cid, { check: c.req.raw.headers.has(CHECK_HEADER) });
  if (length === null) throw absent(cid);
  return new Response(null, { headers: headersOf(cid, length) });
}

async function get(cas: Cas & Partial<Ranged>, c: Call, cid: Cid): Promise<Response> {
  const { headers } = c.req.raw;
  const match = headers.get("if-none-match");
  if (match !== null && matches(match, cid)) {
    if (!await cas.has(cid)) throw absent(cid);
    return new Response(null, { status: 304, headers: { etag: `"${rawCid(cid)}"` } });
  }
  const asked = headers.get("range");
  const range = asked === null ? null : parseRange(asked);
  if (range !== null && cas.getRange !== undefined && isFresh(headers, cid)) {
    return await part(cas as Ranged, c, cid, range);
  }
  const body = await cas.getStream(cid, { transient: isSent(c) });
  if (body === null) throw absent(cid);
  return new Response(content(body), { headers: headersOf(cid, body.length) });
}

/**
 * Whether the answer goes to a peer: what sends it has passed a piece on before it asks for the next. Who calls the
 * routes within the process may gather pieces.
 */
function isSent(c: Call): boolean {
  return c.env?.unix !== undefined;
}

function content(body: BlobBody): BodyInit {
  return body.bytes ?? body.stream as ReadableStream<Uint8Array<ArrayBuffer>>;
}

async function part(cas: Ranged, c: Call, cid: Cid, range: Range): Promise<Response> {
  const body = await cas.getRange(cid, range.from, range.to, { transient: isSent(c) });
  if (body === null) throw absent(cid);
  const length = body.length ?? 0;
  const found = resolveRange(range, length);
  if (found === null) {
    await body.stream.cancel();
    const message = `blob ${cid} has ${length} bytes, and none of those that were asked for`;
    return Response.json({ code: "invalid_request", message }, {
      status: 416,
      headers: { "content-range": `bytes */${length}` },
    });
  }
  const [first, last] = found;
  const headers = headersOf(cid, last - first + 1);
  headers["content-range"] = `bytes ${first}-${last}/${length}`;
  return new Response(content(body), { status: 206, headers });
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

async function receive(cas: Cas, c: Call, maxBytes: number): Promise<Response> {
  const request = c.req.raw;
  const expectedCid = parseCid(c.req.param("cid") ?? "");
  const expectedLength = announced(request, expectedCid);
  const limits = { expectedCid, expectedLength, maxBytes };
  if (expectedLength > maxBytes) {
    throw new SubletError(
      "too_large",
      `blob ${expectedCid} has ${expectedLength} bytes, and the store takes no more than ${maxBytes}`,
    );
  }
  if (expectedLength <= SMALL || request.body === null) {
    await cas.put(new Uint8Array(await request.arrayBuffer()), limits);
  } else {
    await cas.putStream(request.body, { ...limits, preventCancel: true });
  }
  return new Response(null, { status: 201 });
}

function announced(request: Request, cid: Cid): number {
  const header = request.headers.get("content-length");
  if (header !== null && /^\d{1,15}$/.test(header)) return Number(header);
  throw new SubletError(
    "length_required",
    `blob ${cid}: send its length as Content-Length; a chunked upload is not taken`,
  );
}

/**
 * Take what is left of a request's body, within reason: an answer that comes before the end of it can be lost, since
 * the connection breaks under the sender. One that waits to be asked for its body is not.
 */
async function drain(request: Request): Promise<void> {
  // Even a look at the body asks for it.
  if (request.headers.has("expect")) return;
  const { body } = request;
  if (body === null || body.locked) return;
  let left = MAX_DRAIN;
  try {
    for await (const bytes of body) {
      left -= bytes.length;
      if (left < 0) return;
    }
  } catch {
    // The sender has gone: nobody waits for the answer.
  }
}
