/** @module An object on its way to GCS: small ones in one request, larger ones as an upload that goes on where it broke off. */

import { Buffer } from "node:buffer";
import * as z from "zod";
import { isError, SubletError } from "../home/mod.ts";
import type { HttpResponse } from "../net/mod.ts";
import type { GcsCalls, GcsRequest } from "./gcs_calls.ts";
import { Retry } from "./http_calls.ts";
import { textOf, Transient } from "./objects_calls.ts";
import type { Frame } from "./objects_frame.ts";
import { concat } from "./streams.ts";

/** Objects up to this size are sent in one request, from memory. */
const ONE_REQUEST = 1024 * 1024;

/** Sessions that are opened for one object, when they are gone before its end. */
const SESSIONS = 3;

/** Milliseconds without an answer after the last byte was sent. */
const TIMEOUT_MS = 120_000;

/** What GCS says of an object. */
export const resource = z.object({
  size: z.string().regex(/^\d{1,16}$/).transform(Number),
  generation: z.string().default(""),
  md5Hash: z.string().optional(),
  updated: z.string().default(""),
  name: z.string(),
});

/** What `text` says of an object. Throws `unavailable` when it says nothing. */
export function parseResource(what: string, text: string): z.output<typeof resource> {
  try {
    return resource.parse(JSON.parse(text));
  } catch (error) {
    throw new SubletError(
      "unavailable",
      `${what}: GCS answered with something else than an object`,
      {
        cause: error,
      },
    );
  }
}

/** An object that is to be written. */
export interface GcsUpload {
  readonly what: string;
  readonly bucket: string;
  readonly name: string;
  readonly storageClass: string;
  readonly onlyNew: boolean;
  readonly signal: AbortSignal | undefined;
}

/** Write `frame`; the object's generation, or null when there was one that was to be left alone. */
export async function upload(
  calls: GcsCalls,
  frame: Frame,
  options: GcsUpload,
): Promise<string | null> {
  const md5 = await frame.hash("md5");
  const metadata = new TextEncoder().encode(JSON.stringify({
    name: options.name,
    storageClass: options.storageClass,
    contentType: "application/zstd",
    // GCS refuses other bytes.
    md5Hash: Buffer.from(md5).toString("base64"),
  }));
  return frame.size <= ONE_REQUEST
    ? await inOne(calls, frame, metadata, options)
    : await resumable(calls, frame, metadata, options);
}

function target(calls: GcsCalls, type: string, { bucket, name, onlyNew }: GcsUpload): URL {
  return calls.url(`/upload/storage/v1/b/${bucket}/o`, {
    uploadType: type,
    name,
    ifGenerationMatch: onlyNew ? "0" : undefined,
  });
}

/** What an answer to the last bytes says. */
async function written(what: string, answer: HttpResponse): Promise<string | null> {
  if (answer.status === 412) {
    await answer.discard();
    return null;
  }
  return parseResource(what, await textOf(answer)).generation;
}

async function inOne(
  calls: GcsCalls,
  frame: Frame,
  metadata: Uint8Array,
  options: GcsUpload,
): Promise<string | null> {
  const { what, signal } = options;
  const boundary = `sublet-${crypto.randomUUID()}`;
  const text = (value: string) => new TextEncoder().encode(value);
  const parts = [
    text(`--${boundary}\r\ncontent-type: application/json; charset=utf-8\r\n\r\n`),
    metadata,
    text(`\r\n--${boundary}\r\ncontent-type: application/zstd\r\n\r\n`),
    await frame.whole(),
    text(`\r\n--${boundary}--\r\n`),
  ];
  const body = concat(parts, parts.reduce((sum, part) => sum + part.length, 0));
  return await calls.call({
    method: "POST",
    what,
    url: target(calls, "multipart", options),
    headers: { "content-type": `multipart/related; boundary=${boundary}` },
    body: () => body,
    takes: [412],
    signal,
  }, async (answer) => await written(what, answer));
}

async function resumable(
  calls: GcsCalls,
  frame: Frame,
  metadata: Uint8Array,
  options: GcsUpload,
): Promise<string | null> {
  for (let again = SESSIONS - 1;; again--) {
    const session = await openSession(calls, frame, metadata, options);
    if (session === null) return null;
    let done = false;
    try {
      const generation = await sendAll(calls, frame, session, options);
      done = true;
      if (generation !== "gone") return generation.of;
    } finally {
      if (!done) await cancel(calls, session, options);
    }
    if (again === 0) {
      throw new SubletError("unavailable", `${options.what}: GCS forgets its sessions. Try again`);
    }
  }
}

/** Where the object is sent, or null when there is one that is to be left alone. */
async function openSession(
  calls: GcsCalls,
  frame: Frame,
  metadata: Uint8Array,
  options: GcsUpload,
): Promise<URL | null> {
  const { what, signal } = options;
  const session = await calls.call({
    method: "POST",
    what,
    url: target(calls, "resumable", options),
    headers: {
      "content-type": "application/json; charset=utf-8",
      "x-upload-content-type": "application/zstd",
      "x-upload-content-length": String(frame.size),
    },
    body: () => metadata,
    takes: [412],
    signal,
  }, async (answer) => {
    await answer.discard();
    return answer.status === 412 ? null : answer.headers.get("location") ?? "";
  });
  if (session === null) return null;
  if (URL.canParse(session)) return new URL(session);
  throw new SubletError("unavailable", `${what}: GCS named no session`);
}

/** What came of a session: the object's generation, null when there was one that was to be left alone; or it is gone. */
type Sent = { readonly of: string | null } | "gone";

/** Send `frame` to `session`, from where it had come to when it broke off. */
async function sendAll(
  calls: GcsCalls,
  frame: Frame,
  session: URL,
  { what, signal }: GcsUpload,
): Promise<Sent> {
  let retry = new Retry(calls.clock);
  let at = 0;
  // Whether the session is asked what it has, rather than sent more.
  let asks = false;
  while (true) {
    const range = asks ? `bytes */${frame.size}` : `bytes ${at}-${frame.size - 1}/${frame.size}`;
    const from = at;
    const request: GcsRequest = {
      method: "PUT",
      what,
      url: session,
      headers: { "content-range": range },
      body: () => asks ? new Uint8Array(0) : frame.body(from),
      takes: [308, 404, 410, 412],
      timeoutMs: TIMEOUT_MS,
      signal,
    };
    try {
      const got = await calls.once(request, async (answer) => await progress(what, answer));
      if (typeof got !== "number") return got;
      if (got > at) retry = new Retry(calls.clock);
      else if (!asks && !await retry.next(0, signal)) {
        throw new SubletError("unavailable", `${what}: GCS takes no more of it`);
      }
      at = got;
      asks = false;
    } catch (error) {
      const failure = passing(what, error, signal);
      if (!await retry.next(failure.atLeastMs, signal)) throw failure.error;
      asks = true;
    }
  }
}

/** What a session answers: how many bytes it has, or what came of it. */
async function progress(what: string, answer: HttpResponse): Promise<number | Sent> {
  const { status, headers } = answer;
  if (status !== 308 && status !== 404 && status !== 410) {
    return { of: await written(what, answer) };
  }
  await answer.discard();
  if (status !== 308) return "gone";
  return Number(/^bytes=0-(\d{1,16})$/.exec(headers.get("range") ?? "")?.[1] ?? -1) + 1;
}

/** `error`, if it may pass. */
function passing(what: string, error: unknown, signal: AbortSignal | undefined): Transient {
  if (signal?.aborted) {
    throw new SubletError("cancelled", `${what} was cancelled`, { cause: signal.reason });
  }
  if (error instanceof Transient) return error;
  if (!isError(error, "unreachable")) throw error;
  return new Transient(
    new SubletError("unavailable", `${what}: ${error.message}`, { cause: error }),
  );
}

/** Give up a session. It is only an attempt: it ends by itself in a week, and nothing of it is visible. */
async function cancel(calls: GcsCalls, session: URL, { what }: GcsUpload): Promise<void> {
  try {
    await calls.once({
      method: "DELETE",
      what,
      url: session,
      takes: [404, 410, 499],
      timeoutMs: 10_000,
    }, async (answer) => await answer.discard());
  } catch (error) {
    if (!isError(error) && !(error instanceof Transient)) throw error;
  }
}
