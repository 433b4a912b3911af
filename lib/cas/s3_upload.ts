/** @module An object on its way to S3 in parts (multipart upload): there when all parts are, or not at all. */

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { isError, SubletError } from "../home/mod.ts";
import { each } from "./each.ts";
import { textOf, Transient } from "./objects_calls.ts";
import type { Frame } from "./objects_frame.ts";
import { answerOf, type S3Calls, type S3Request } from "./s3_calls.ts";
import { isTransient, refusalOf, refused, type S3Refusal } from "./s3_errors.ts";
import { abortUpload } from "./s3_unfinished.ts";
import { elementOf, escapeXml } from "./s3_xml.ts";

const MIB = 1024 * 1024;

/** Objects from this size on are sent in parts. It and the size of parts are those of AWS's own client for Python. */
export const MULTIPART_FROM = 8 * MIB;
const SMALLEST_PART = 8 * MIB;
const MOST_PARTS = 10_000;

/** Parts of one object that are sent at once. */
const WIDTH = 4;

/** Milliseconds for the last call, in which the parts become an object. */
const COMPLETE_MS = 300_000;
const ABORT_MS = 10_000;

/** Bytes of each part of an object of `size` bytes but the last. */
export function partSize(size: number): number {
  return Math.max(SMALLEST_PART, Math.ceil(size / MOST_PARTS / MIB) * MIB);
}

/** The ETag of an object of these parts, as S3 makes it where it does not encrypt with a key of its own. */
export function partsTag(md5s: readonly Uint8Array[]): string {
  const hash = createHash("md5");
  for (const md5 of md5s) hash.update(md5);
  return `${hash.digest("hex")}-${md5s.length}`;
}

/** The upload of `frame` as the object `key`. */
export interface UploadOptions {
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly onlyNew: boolean;
  readonly signal: AbortSignal | undefined;
  /** Whether the object is there, undamaged: asked when the answer to the last call was lost. */
  readonly isThere: () => Promise<string | null>;
}

/** Upload `frame`; the object's tag, or null when there was one that was to be left alone. */
export async function uploadParts(
  calls: S3Calls,
  frame: Frame,
  options: UploadOptions,
): Promise<string | null> {
  const { key } = options;
  const what = `the upload of ${key}`;
  const id = await calls.call({
    method: "POST",
    what,
    key,
    query: { uploads: "" },
    headers: options.headers,
    signal: options.signal,
  }, async (found) => elementOf(await textOf(answerOf(found)), "UploadId"));
  if (id === null) throw new SubletError("unavailable", `${what}: S3 gave no upload id`);
  let done = false;
  try {
    const tags = await sendParts(calls, frame, id, options);
    const tag = await complete(calls, id, tags, options);
    done = tag !== null;
    return tag;
  } finally {
    if (!done) await abort(calls, key, id);
  }
}

async function sendParts(
  calls: S3Calls,
  frame: Frame,
  id: string,
  { key, signal }: UploadOptions,
): Promise<string[]> {
  const parts = frame.parts(partSize(frame.size));
  const tags: string[] = [];
  // The first failure ends the others, too: their bytes are for nothing.
  const failed = new AbortController();
  const either = signal === undefined ? failed.signal : AbortSignal.any([failed.signal, signal]);
  let cause: unknown = null;
  try {
    await each(parts.entries(), WIDTH, async ([index, { from, to }]) => {
      const md5 = await frame.hash("md5", from, to);
      const request: S3Request = {
        method: "PUT",
        what: `part ${index + 1} of ${key}`,
        key,
        query: { partNumber: String(index + 1), uploadId: id },
        headers: { "content-md5": Buffer.from(md5).toString("base64") },
        body: () => frame.body(from, to),
        sha256: () => frame.hash("sha256", from, to),
        signal: either,
      };
      try {
        tags[index] = await calls.call(request, async (found) => {
          const answer = answerOf(found);
          await answer.discard();
          return answer.headers.get("etag") ?? "";
        });
      } catch (error) {
        cause ??= error;
        failed.abort();
        throw error;
      }
    });
  } catch (error) {
    throw cause ?? error;
  }
  return tags;
}

/** The tag of the object, or null when there was one that was to be left alone. */
async function complete(
  calls: S3Calls,
  id: string,
  tags: readonly string[],
  { key, onlyNew, signal, isThere }: UploadOptions,
): Promise<string | null> {
  const parts = tags.map((tag, i) =>
    `<Part><PartNumber>${i + 1}</PartNumber><ETag>${escapeXml(tag)}</ETag></Part>`
  );
  const xml = new TextEncoder().encode(
    `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join("")}` +
      `</CompleteMultipartUpload>`,
  );
  const what = `the upload of ${key}`;
  return await calls.call({
    method: "POST",
    what,
    key,
    query: { uploadId: id },
    headers: { "content-type": "application/xml" },
    body: () => xml,
    sha256: () => createHash("sha256").update(xml).digest(),
    onlyNew,
    takes: [412, "NoSuchUpload"],
    timeoutMs: COMPLETE_MS,
    signal,
  }, async (found) => {
    if (!found.ok) return await settled(what, found.refusal, isThere);
    const text = await textOf(found.answer);
    // The status was sent before the work was done: a failure is told in the body.
    if (text.includes("<Error>")) {
      throw lateRefusal(what, refusalOf(500, text, found.answer.headers));
    }
    return (elementOf(text, "ETag") ?? "").replaceAll('"', "");
  });
}

function lateRefusal(what: string, refusal: S3Refusal): Error {
  const error = refused(what, refusal);
  return isTransient(refusal) ? new Transient(error) : error;
}

/** There is no such upload: it became the object, and the answer that said so was lost; or somebody removed it. */
async function settled(
  what: string,
  refusal: S3Refusal,
  isThere: () => Promise<string | null>,
): Promise<string | null> {
  if (refusal.status === 412) return null;
  const tag = await isThere();
  if (tag !== null) return tag;
  throw new SubletError(
    "unavailable",
    `${what} was removed from the bucket while it ran. Try again`,
  );
}

/** Give up an upload, so that its parts are not paid for. It is only an attempt: rules of the bucket can do it, too. */
async function abort(calls: S3Calls, key: string, id: string): Promise<void> {
  try {
    const signal = AbortSignal.timeout(ABORT_MS);
    await abortUpload(calls, key, id, { timeoutMs: ABORT_MS, signal });
  } catch (error) {
    if (!isError(error)) throw error;
  }
}
