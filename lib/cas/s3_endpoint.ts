/** @module Where a bucket of S3 is dialed. */

import { SubletError } from "../home/mod.ts";

/** Where objects of a bucket are. */
export interface S3Place {
  readonly bucket: string;
  /** Starts every key: empty, or with a slash at its end. */
  readonly prefix: string;
}

/**
 * The bucket and prefix of `s3://bucket[/prefix]`. The prefix is taken as it stands, so a `%` in it is a `%`. Null when
 * it is no such URL, or has parts that URLs cannot carry (`.`, `..`, empty).
 */
export function parseS3Url(url: string): S3Place | null {
  const match = /^s3:\/\/([A-Za-z0-9][A-Za-z0-9._-]{1,254})(?:\/(.*))?$/.exec(url);
  const [, bucket, path = ""] = match ?? [];
  if (bucket === undefined) return null;
  const prefix = cleanPrefix(path);
  return prefix === null ? null : { bucket, prefix };
}

/** `path` as the start of keys: empty, or with one slash at its end; null when no key can start so. */
export function cleanPrefix(path: string): string | null {
  const parts = path.replace(/^\/+|\/+$/g, "").split("/");
  if (parts.length === 1 && parts[0] === "") return "";
  // deno-lint-ignore no-control-regex
  const fine = parts.every((part) => !/^\.{0,2}$/.test(part) && !/[\x00-\x1f\x7f?#]/.test(part));
  return fine && parts.join("/").length <= 900 ? `${parts.join("/")}/` : null;
}

/** Names that may be a part of a host name under a certificate for `*.s3.…`. */
const HOST_NAME = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/;

/** `text` as a part of a path (RFC 3986, as signatures of AWS want it). */
export function encodePart(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Where the bucket is dialed in `region`: at AWS, or at `endpoint`. Its path has no slash at its end. */
export function bucketUrl(bucket: string, region: string, endpoint: string | null): URL {
  if (endpoint !== null) {
    const url = new URL(endpoint);
    url.pathname = `${url.pathname.replace(/\/+$/, "")}/${bucket}`;
    return url;
  }
  const host = `s3.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`;
  // A dot in the name would be a level that the certificate does not cover.
  return HOST_NAME.test(bucket)
    ? new URL(`https://${bucket}.${host}`)
    : new URL(`https://${host}/${bucket}`);
}

/** `value`, from `name`, as the URL of an endpoint. Throws `config` when it is none. */
export function checkEndpoint(name: string, value: string): string {
  const url = URL.canParse(value) ? new URL(value) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.search !== "") {
    throw new SubletError(
      "config",
      `${name}: must be an http or https URL, such as https://HOST:PORT`,
    );
  }
  return value;
}
