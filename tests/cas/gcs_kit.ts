/** @module A server of GCS for tests, and calls of it behind a store's back. */

import { type Cid, type Damage, damagedObject } from "../../lib/cas/mod.ts";
import { objectKey } from "../../lib/cas/objects.ts";
import { type BucketServer, findProgram, freePort, startServer } from "./bucket_kit.ts";

export const FAKE_GCS = findProgram("SUBLET_TEST_FAKE_GCS", "fake-gcs-server");

/** Start fake-gcs-server. `external`: the URL under which it is reached. */
export async function startFakeGcs(
  external?: (url: string) => string,
): Promise<BucketServer> {
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  const outside = external?.(url) ?? url;
  const host = `127.0.0.1:${port}`;
  return await startServer(
    [
      FAKE_GCS ?? "",
      ...["-scheme", "http", "-host", "127.0.0.1", "-port", String(port), "-backend", "memory"],
      ...["-external-url", outside, "-public-host", host, "-log-level", "error"],
    ],
    url,
    "/storage/v1/b",
  );
}

/** A call of the server at `base`; the answer's body. Fails unless it succeeds. */
export async function callGcs(
  base: string,
  method: string,
  path: string,
  body?: Uint8Array<ArrayBuffer> | string,
): Promise<Uint8Array<ArrayBuffer>> {
  const answer = await fetch(base + path, { method, ...(body === undefined ? {} : { body }) });
  const bytes = await answer.bytes();
  if (!answer.ok) {
    throw new Error(`${method} ${path}: ${answer.status} ${new TextDecoder().decode(bytes)}`);
  }
  return bytes;
}

export async function makeBucket(base: string, name: string): Promise<void> {
  await callGcs(base, "POST", "/storage/v1/b", JSON.stringify({ name }));
}

/** Damage the object of `cid`, whose name starts with `prefix`, in place. */
export async function damageGcs(
  base: string,
  bucket: string,
  prefix: string,
  cid: Cid,
  how: Damage,
): Promise<void> {
  const name = encodeURIComponent(prefix + objectKey(cid));
  const bytes = await callGcs(base, "GET", `/storage/v1/b/${bucket}/o/${name}?alt=media`);
  const query = `uploadType=media&name=${name}`;
  await callGcs(
    base,
    "POST",
    `/upload/storage/v1/b/${bucket}/o?${query}`,
    damagedObject(bytes, how),
  );
}
