/** @module Signatures of requests to AWS (Signature Version 4). */

import { createHash } from "node:crypto";
import { AwsV4Signer } from "aws4fetch";
import { recordOf } from "./objects_calls.ts";
import type { AwsKeys } from "./s3_keys.ts";

/** A request that is to be signed. */
export interface Unsigned {
  readonly method: string;
  /** As it is sent: nothing in it is encoded again. */
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** Its body's SHA-256 in lower-case hex, or the body. Default: there is none. */
  readonly sha256?: string;
  readonly body?: Uint8Array;
}

/** For which service, where, and when (Unix ms) a request is signed. */
export interface Scope {
  readonly service: "s3" | "sts";
  readonly region: string;
  readonly at: number;
}

/** Keys that were derived for a day. */
const derived = new Map<string, ArrayBuffer>();

/** The headers of the signed request. */
export async function signed(
  { method, url, headers = {}, sha256, body }: Unsigned,
  keys: AwsKeys,
  { service, region, at }: Scope,
): Promise<Record<string, string>> {
  if (derived.size > 100) derived.clear();
  const hash = sha256 ?? createHash("sha256").update(body ?? new Uint8Array(0)).digest("hex");
  const signer = new AwsV4Signer({
    method,
    url: url.href,
    headers: { ...headers, "x-amz-content-sha256": hash },
    accessKeyId: keys.accessKeyId,
    secretAccessKey: keys.secretAccessKey,
    ...(keys.sessionToken === undefined ? {} : { sessionToken: keys.sessionToken }),
    service,
    region,
    cache: derived,
    datetime: new Date(at).toISOString().replaceAll(/[:-]|\.\d{3}/g, ""),
  });
  return recordOf((await signer.sign()).headers);
}
