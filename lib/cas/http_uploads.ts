/**
 * @module The routes of uploads in parts. After the IETF's draft of resumable uploads for HTTP
 * (draft-ietf-httpbis-resumable-upload), whose `Upload-*` fields and PATCH they have; besides, parts may come in any
 * order and on several connections, since the whole is hashed anyway.
 */

import { SubletError } from "../home/mod.ts";
import { readJson } from "../net/mod.ts";
import { orBrokenOff } from "./broken_off.ts";
import { rawCid, sameBlob } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { EMPTY } from "./empty.ts";
import { type Gate, TryLater } from "./http_limits.ts";
import { Refusal } from "./http_refusal.ts";
import { uploadQuestion } from "./http_wire.ts";
import { checkAddress } from "./limits.ts";
import { PART } from "./part_file.ts";
import { Upload } from "./upload.ts";
import { UPLOAD_ID } from "./upload_files.ts";
import type { Done, Uploads } from "./uploads.ts";
import { blobError } from "./verify.ts";

const PATH = "/v1/cas/uploads";

/** The most bytes of a question. */
const MAX_QUESTION = 4096;

/** Gaps that an answer names. */
const GAPS = 1000;

/** Answer a request below `/v1/cas/uploads`, of which `rest` are the parts of the path. */
export async function answerUpload(
  uploads: Uploads,
  gate: Gate,
  request: Request,
  rest: readonly string[],
  token: string,
): Promise<Response> {
  const { method } = request;
  const [id, ...more] = rest;
  if (more.length > 0) {
    throw new SubletError("not_found", `there is no ${method} below ${PATH}/${id}`);
  }
  if (id === undefined) {
    if (method === "POST") return await begin(uploads, gate, request, token);
    throw refuseMethod(method, PATH, "POST");
  }
  const found = uploads.find(token, UPLOAD_ID.test(id) ? id : "with such a name");
  if (method === "GET" || method === "HEAD") return await state(uploads, found, 200);
  if (method === "PATCH") return await append(uploads, gate, request, found, token);
  if (method !== "DELETE") throw refuseMethod(method, `${PATH}/${id}`, "GET, HEAD, PATCH, DELETE");
  if (found instanceof Upload) await uploads.remove(found);
  return new Response(null, { status: 204 });
}

function refuseMethod(method: string, path: string, allow: string): Refusal {
  const message = `${path}: ${method} is not allowed here, only ${allow}`;
  return new Refusal("method_not_allowed", message, { allow });
}

async function begin(
  uploads: Uploads,
  gate: Gate,
  request: Request,
  token: string,
): Promise<Response> {
  const { cid, length } = await readJson(request, uploadQuestion, MAX_QUESTION);
  gate.check(token, true);
  const what = `blob ${cid}`;
  if (length === 0) checkAddress(EMPTY, { expectedCid: cid });
  if (sameBlob(cid, EMPTY) || await uploads.holds(cid)) {
    return complete({ cid, length }, 200);
  }
  gate.checkSize(length, what);
  const upload = await uploads.begin(token, cid, length, async () => {
    using _room = await gate.reserve(length, what, uploads.pending);
  });
  return await state(uploads, upload, 201);
}

/** The headers of the draft. */
function fields(cid: Cid, length: number, offset: number, done: boolean): Record<string, string> {
  return {
    "upload-offset": String(offset),
    "upload-length": String(length),
    "upload-complete": done ? "?1" : "?0",
    "cache-control": "no-store",
    ...(done ? { etag: `"${rawCid(cid)}"` } : {}),
  };
}

function complete({ cid, length }: { cid: Cid; length: number }, status: number): Response {
  const headers = fields(cid, length, length, true);
  return Response.json({ cid, length, complete: true, missing: [] }, { status, headers });
}

async function state(uploads: Uploads, found: Upload | Done, status: number): Promise<Response> {
  if (!(found instanceof Upload)) return complete(found, 200);
  const file = await found.file();
  if (file === null) {
    await uploads.remove(found);
    throw new SubletError("not_found", `the file of the upload ${found.id} is gone: begin again`);
  }
  const { id, cid, length } = found;
  const missing = file.missing(GAPS);
  const headers = {
    ...fields(cid, length, missing[0]?.[0] ?? length, false),
    "upload-limit": `min-append-size=${PART}, max-age=${uploads.maxAgeSeconds}`,
    location: `${PATH}/${id}`,
  };
  const body = { id, cid, length, part: PART, complete: false, missing };
  return Response.json(body, { status, headers });
}

async function append(
  uploads: Uploads,
  gate: Gate,
  request: Request,
  found: Upload | Done,
  token: string,
): Promise<Response> {
  try {
    return await take(uploads, gate, request, found, token);
  } catch (error) {
    // A refusal that says when to try again says so itself.
    throw error instanceof TryLater ? error : blobError(found.cid, error);
  }
}

async function take(
  uploads: Uploads,
  gate: Gate,
  request: Request,
  found: Upload | Done,
  token: string,
): Promise<Response> {
  const from = numberOf(request, "upload-offset");
  const length = numberOf(request, "content-length");
  if (!(found instanceof Upload)) {
    return new Response(null, { status: 204, headers: doneFields(found) });
  }
  {
    using transfer = gate.begin(token, true);
    await orBrokenOff(found.cid, transfer, () =>
      found.take(from, length, request.body, {
        preventCancel: true,
        signal: transfer.signal,
        progress: (bytes) => transfer.progress(bytes),
      }));
  }
  const file = await found.file();
  if (!file?.complete) {
    const offset = file?.missing(1)[0]?.[0] ?? 0;
    return new Response(null, {
      status: 204,
      headers: fields(found.cid, found.length, offset, false),
    });
  }
  await uploads.finish(found);
  return new Response(null, { status: 201, headers: doneFields(found) });
}

function doneFields({ cid, length }: { cid: Cid; length: number }): Record<string, string> {
  return fields(cid, length, length, true);
}

function numberOf(request: Request, name: "upload-offset" | "content-length"): number {
  const header = request.headers.get(name);
  if (header !== null && /^\d{1,15}$/.test(header)) return Number(header);
  throw new SubletError(
    name === "content-length" ? "length_required" : "invalid_request",
    `a part needs the header ${name}: ${
      name === "content-length" ? "its bytes" : "where in the blob it starts"
    }`,
  );
}
