/** @module Uploads in parts that were begun in a bucket of S3 and not ended: what crashes leave, and what is under way. */

import type { Unfinished } from "./objects.ts";
import { textOf } from "./objects_calls.ts";
import { answerOf, type S3Calls, type S3Request } from "./s3_calls.ts";
import { elementOf, rawElements } from "./s3_xml.ts";

/** Those of keys that start with `root` and `prefix`. Not every server lists them all. */
export async function* listUploads(
  calls: S3Calls,
  root: string,
  prefix: string,
): AsyncGenerator<Unfinished, void, undefined> {
  for (let next: Record<string, string> | null = {}; next !== null;) {
    const query: Record<string, string> = { uploads: "", prefix: root + prefix, ...next };
    const xml: string = await ask(calls, "the listing of uploads", { query });
    for (const item of rawElements(xml, "Upload")) {
      const [key, id] = [elementOf(item, "Key") ?? "", elementOf(item, "UploadId") ?? ""];
      if (!key.startsWith(root + prefix) || id === "") continue;
      yield {
        key: key.slice(root.length),
        begun: Date.parse(elementOf(item, "Initiated") ?? "") || 0,
        size: () => sizeOf(calls, key, id),
        abort: () => abortUpload(calls, key, id),
      };
    }
    next = after(xml);
  }
}

/** Where the listing goes on; null: it has ended. */
function after(xml: string): Record<string, string> | null {
  const key = elementOf(xml, "NextKeyMarker");
  const id = elementOf(xml, "NextUploadIdMarker");
  if (elementOf(xml, "IsTruncated") !== "true" || !key) return null;
  return { "key-marker": key, ...(id ? { "upload-id-marker": id } : {}) };
}

async function ask(
  calls: S3Calls,
  what: string,
  request: { readonly key?: string; readonly query: Record<string, string> },
): Promise<string> {
  return await calls.call(
    { method: "GET", what, ...request, takes: ["NoSuchUpload"] },
    async (found) => found.ok ? await textOf(answerOf(found)) : "",
  );
}

/** Bytes of an upload's parts so far. */
async function sizeOf(calls: S3Calls, key: string, id: string): Promise<number> {
  let size = 0;
  for (let after: string | null = "0"; after !== null;) {
    const query: Record<string, string> = { uploadId: id, "part-number-marker": after };
    const xml: string = await ask(calls, `the listing of parts of ${key}`, { key, query });
    for (const part of rawElements(xml, "Part")) size += Number(elementOf(part, "Size")) || 0;
    const next: string | null = elementOf(xml, "NextPartNumberMarker");
    after = elementOf(xml, "IsTruncated") === "true" && next !== after ? next : null;
  }
  return size;
}

/** Give up an upload, within `limits`. It may have ended. */
export async function abortUpload(
  calls: S3Calls,
  key: string,
  id: string,
  limits: Pick<S3Request, "timeoutMs" | "signal"> = {},
): Promise<void> {
  await calls.call({
    method: "DELETE",
    what: `the end of the upload of ${key}`,
    key,
    query: { uploadId: id },
    takes: [404],
    ...limits,
  }, async (found) => {
    if (found.ok) await found.answer.discard();
  });
}
