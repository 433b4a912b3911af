/**
 * @module The `s3` provider: the objects of a bucket of S3, or of a server that speaks its protocol (MinIO, Ceph, R2…).
 *
 * Objects are named as piloop names them, so both use one bucket:
 * `<prefix>/blake3/<name>/bytes.zst`.
 */

import { Buffer } from "node:buffer";
import { type Clock, type Env, SubletError, systemClock } from "../home/mod.ts";
import type {
  Bucket,
  Listed,
  ObjectInfo,
  OpenObject,
  Part,
  PutOptions,
  Unfinished,
} from "./objects.ts";
import { Hosts, textOf } from "./objects_calls.ts";
import { emptyObject, opened } from "./objects_opened.ts";
import { type ObjectsStore, openObjects } from "./objects_cas.ts";
import type { Frame } from "./objects_frame.ts";
import { prepareUploads } from "./objects_tmp.ts";
import { answerOf, S3Calls, type S3Request } from "./s3_calls.ts";
import { AwsCredentials } from "./s3_credentials.ts";
import { parseS3Url, type S3Place } from "./s3_endpoint.ts";
import { s3Settings } from "./s3_settings.ts";
import { MULTIPART_FROM, partSize, partsTag, uploadParts } from "./s3_upload.ts";
import { listUploads } from "./s3_unfinished.ts";
import { elementOf, rawElements } from "./s3_xml.ts";

/** Milliseconds without an answer after which a call that is made only once has failed. */
const ONCE_MS = 10_000;

/** Classes whose objects have to be restored before they can be read. */
const ARCHIVED = new Set(["GLACIER", "DEEP_ARCHIVE"]);

/** Where a bucket is, and how its objects are stored. */
export interface S3Options {
  /** `s3://bucket[/prefix]`. */
  readonly url: string;
  /** The class of objects, such as `GLACIER_IR` (the default). */
  readonly storageClass?: string;
  /** Objects of fewer bytes than this, compressed, are stored as `STANDARD`. Default: 131,072. */
  readonly standardBelow?: number;
  /** An existing directory for temporary files. Default: the system's. */
  readonly tmp?: string;
  /** Where credentials, region, endpoint (`AWS_*`), roots and proxy are looked up. */
  readonly env: Env;
  /** Every root to trust, as PEM text, for a thread that may not read them. Default: the usual ones. */
  readonly ca?: string;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** See `ObjectsOptions`. */
  readonly keepEveryMs?: number;
  /** Whether what crashes left is removed when it opens, too. Default: it is. */
  readonly sweeps?: boolean | undefined;
}

class S3Bucket implements Bucket {
  readonly where: string;
  readonly #calls: S3Calls;
  readonly #hosts: Hosts;
  readonly #prefix: string;
  readonly #bucket: string;
  readonly #storageClass: string;
  readonly #standardBelow: number;
  /** Whether the bucket is known to be there. */
  #found: Promise<void> | null = null;

  constructor(place: S3Place, calls: S3Calls, hosts: Hosts, options: S3Options) {
    this.#calls = calls;
    this.#hosts = hosts;
    this.#prefix = place.prefix;
    this.#bucket = place.bucket;
    this.where = `s3://${place.bucket}/${place.prefix}`.replace(/\/$/, "");
    this.#storageClass = options.storageClass ?? "GLACIER_IR";
    this.#standardBelow = options.standardBelow ?? 131_072;
  }

  [Symbol.dispose](): void {
    this.#hosts[Symbol.dispose]();
  }

  #what(what: string, key: string): string {
    return `${what} s3://${this.#bucket}/${this.#prefix}${key}`;
  }

  async stat(key: string, signal?: AbortSignal): Promise<ObjectInfo | null> {
    const info = await this.#calls.call({
      method: "HEAD",
      what: this.#what("the look for", key),
      key: this.#prefix + key,
      takes: [404],
      signal,
    }, async (found) => {
      if (!found.ok) return null;
      await found.answer.discard();
      return infoOf(found.answer.headers, Number(found.answer.headers.get("content-length")));
    });
    if (info === null) await this.#checkBucket();
    return info;
  }

  /** That an object is not there means something only when the bucket is. Throws `config` when it is not. */
  async #checkBucket(): Promise<void> {
    const request: S3Request = {
      method: "HEAD",
      what: `the look for the bucket ${this.#bucket}`,
      takes: [404, 403],
    };
    this.#found ??= this.#calls.call(request, async (found) => {
      if (found.ok) return await found.answer.discard();
      // Not everybody who may use its objects may look at it.
      if (found.refusal.status === 403) return;
      throw new SubletError(
        "config",
        `there is no bucket ${this.#bucket}: create it, or check plugins.cas.url and AWS_ENDPOINT_URL`,
      );
    });
    try {
      await this.#found;
    } catch (error) {
      this.#found = null;
      throw error;
    }
  }

  async open(key: string, part: Part = {}): Promise<OpenObject | null> {
    const { from = 0, to, tag, signal } = part;
    const what = this.#what("the read of", key);
    const ranged = from > 0 || to !== undefined;
    const open = await this.#calls.call({
      method: "GET",
      what,
      key: this.#prefix + key,
      headers: {
        ...(ranged ? { range: `bytes=${from}-${to === undefined ? "" : to - 1}` } : {}),
        ...(tag === undefined ? {} : { "if-match": `"${tag}"` }),
      },
      takes: ["NoSuchKey", 412, 416, "InvalidObjectState"],
      signal,
    }, (found) => {
      if (found.ok) {
        return opened(what, found.answer, from, (size) => infoOf(found.answer.headers, size));
      }
      const { refusal } = found;
      if (refusal.code === "NoSuchKey") return null;
      if (refusal.status === 416) return emptyObject();
      throw unreadable(what, refusal.status, refusal.message);
    });
    if (open === null) await this.#checkBucket();
    return open;
  }

  async put(key: string, frame: Frame, { onlyNew, signal }: PutOptions): Promise<string | null> {
    const full = this.#prefix + key;
    const storageClass = frame.size < this.#standardBelow ? "STANDARD" : this.#storageClass;
    const headers = { "x-amz-storage-class": storageClass };
    if (frame.size >= MULTIPART_FROM) {
      const isThere = async () => {
        const info = await this.stat(key);
        return info !== null && await this.holds(info, frame) ? info.tag : null;
      };
      return await uploadParts(this.#calls, frame, {
        key: full,
        headers,
        onlyNew,
        signal,
        isThere,
      });
    }
    const md5 = await frame.hash("md5");
    return await this.#calls.call({
      method: "PUT",
      what: this.#what("the put of", key),
      key: full,
      headers: { ...headers, "content-md5": Buffer.from(md5).toString("base64") },
      body: () => frame.body(),
      sha256: () => frame.hash("sha256"),
      onlyNew,
      takes: [412],
      signal,
    }, async (found) => {
      if (!found.ok) return null;
      await found.answer.discard();
      return tagOf(found.answer.headers);
    });
  }

  async holds(info: ObjectInfo, frame: Frame): Promise<boolean> {
    if (info.size !== frame.size) return false;
    const [, hex, count] = /^([0-9a-f]{32})(?:-(\d{1,5}))?$/.exec(info.tag) ?? [];
    if (hex === undefined) return false;
    if (count === undefined) return Buffer.from(await frame.hash("md5")).toString("hex") === hex;
    const md5s: Uint8Array[] = [];
    for (const { from, to } of frame.parts(partSize(frame.size))) {
      md5s.push(await frame.hash("md5", from, to));
    }
    return partsTag(md5s) === info.tag;
  }

  async remove(key: string, { once = false }: { readonly once?: boolean } = {}): Promise<boolean> {
    await this.#calls.call({
      method: "DELETE",
      what: this.#what("the removal of", key),
      key: this.#prefix + key,
      takes: ["NoSuchKey"],
      once,
      ...(once ? { timeoutMs: ONCE_MS } : {}),
    }, async (found) => {
      if (found.ok) await found.answer.discard();
    });
    return true;
  }

  unfinished(prefix: string): AsyncGenerator<Unfinished, void, undefined> {
    return listUploads(this.#calls, this.#prefix, prefix);
  }

  async *list(prefix: string): AsyncGenerator<Listed, void, undefined> {
    const start = this.#prefix + prefix;
    let next: string | null = null;
    do {
      const query: Record<string, string> = {
        "list-type": "2",
        prefix: start,
        ...(next === null ? {} : { "continuation-token": next }),
      };
      const xml: string = await this.#calls.call(
        { method: "GET", what: this.#what("the listing of", prefix), query },
        async (found) => await textOf(answerOf(found)),
      );
      for (const item of rawElements(xml, "Contents")) {
        const key = elementOf(item, "Key") ?? "";
        if (!key.startsWith(start)) continue;
        yield {
          key: key.slice(this.#prefix.length),
          size: Number(elementOf(item, "Size")) || 0,
          modified: Date.parse(elementOf(item, "LastModified") ?? "") || 0,
          tag: (elementOf(item, "ETag") ?? "").replaceAll('"', ""),
        };
      }
      const before: string | null = next;
      next = elementOf(xml, "IsTruncated") === "true"
        ? elementOf(xml, "NextContinuationToken")
        : null;
      if (next !== null && next === before) {
        throw new SubletError("unavailable", `${this.where}: its listing does not go on`);
      }
    } while (next !== null);
  }
}

function tagOf(headers: Headers): string {
  return (headers.get("etag") ?? "").replace(/^W\//, "").replaceAll('"', "");
}

function infoOf(headers: Headers, size: number): ObjectInfo {
  const storageClass = headers.get("x-amz-storage-class") ?? "";
  const restored = /ongoing-request="false"/.test(headers.get("x-amz-restore") ?? "");
  const tiered = headers.get("x-amz-archive-status") ?? "";
  const archived = tiered !== ""
    ? tiered
    : ARCHIVED.has(storageClass) && !restored
    ? storageClass
    : null;
  const modified = Date.parse(headers.get("last-modified") ?? "") || 0;
  return {
    size: Number.isSafeInteger(size) ? size : 0,
    tag: tagOf(headers),
    archived,
    md5: null,
    modified,
  };
}

function unreadable(what: string, status: number, message: string): SubletError {
  if (status === 412) {
    return new SubletError("unavailable", `${what}: it was written anew meanwhile. Read it again`);
  }
  return new SubletError(
    "unavailable",
    `${what}: it is archived, and can be read only after it was restored (${message}). Restore it ` +
      "(aws s3api restore-object), and take the rule that archives such objects off the bucket",
  );
}

/** Open the bucket at `options.url`. Nothing is dialed yet. Throws `config` for settings that cannot be right. */
export async function openS3(options: S3Options): Promise<ObjectsStore> {
  const { env, url, clock = systemClock } = options;
  const place = parseS3Url(url);
  if (place === null) throw new SubletError("config", `${url}: must be s3://bucket[/prefix]`);
  const { region, endpoint } = await s3Settings(env);
  const hosts = new Hosts(env, options.ca);
  const credentials = new AwsCredentials({ env, hosts, clock, region });
  const calls = new S3Calls({ bucket: place.bucket, region, endpoint, credentials, hosts, clock });
  const uploads = await prepareUploads(options.tmp, options.sweeps);
  const { keepEveryMs } = options;
  return openObjects(new S3Bucket(place, calls, hosts, options), { uploads, clock, keepEveryMs });
}
