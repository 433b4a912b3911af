/**
 * @module The `gcs` provider: the objects of a bucket of Google Cloud Storage, by its JSON API.
 *
 * Objects are named as piloop names them, so both use one bucket:
 * `<prefix>/blake3/<name>/bytes.zst`.
 */

import { Buffer } from "node:buffer";
import * as z from "zod";
import { type Clock, type Env, SubletError, systemClock } from "../home/mod.ts";
import { GcsCalls } from "./gcs_calls.ts";
import { GcsTokens } from "./gcs_tokens.ts";
import { parseResource, resource, upload } from "./gcs_upload.ts";
import type { Bucket, Listed, ObjectInfo, OpenObject, Part, PutOptions } from "./objects.ts";
import { Hosts, textOf } from "./objects_calls.ts";
import { emptyObject, opened } from "./objects_opened.ts";
import { type ObjectsStore, openObjects } from "./objects_cas.ts";
import type { Frame } from "./objects_frame.ts";
import { prepareUploads } from "./objects_tmp.ts";
import { checkEndpoint, cleanPrefix, encodePart } from "./s3_endpoint.ts";

const FIELDS = "name,size,generation,md5Hash,updated";

const page = z.object({
  items: z.array(resource).default([]),
  nextPageToken: z.string().optional(),
});

/** Where a bucket is, and how its objects are stored. */
export interface GcsOptions {
  readonly bucket: string;
  /** Starts the name of every object. Default: none. */
  readonly prefix?: string;
  /** The class of objects. Default: `STANDARD`. */
  readonly storageClass?: string;
  /** The project that pays for requests where the bucket's owner does not. */
  readonly project?: string;
  /** A service account's key file, absolute. Default: what this machine has. */
  readonly credentialsFile?: string;
  /** An existing directory for temporary files. Default: the system's. */
  readonly tmp?: string;
  /** Where credentials, an emulator (`STORAGE_EMULATOR_HOST`), roots and proxy are looked up. */
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

class GcsBucket implements Bucket {
  readonly where: string;
  readonly #calls: GcsCalls;
  readonly #hosts: Hosts;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #storageClass: string;
  /** Whether the bucket is known to be there. */
  #found: Promise<void> | null = null;

  constructor(calls: GcsCalls, hosts: Hosts, prefix: string, options: GcsOptions) {
    this.#calls = calls;
    this.#hosts = hosts;
    this.#bucket = options.bucket;
    this.#prefix = prefix;
    this.#storageClass = options.storageClass ?? "STANDARD";
    this.where = `gs://${options.bucket}/${prefix}`.replace(/\/$/, "");
  }

  [Symbol.dispose](): void {
    this.#hosts[Symbol.dispose]();
  }

  #what(what: string, key: string): string {
    return `${what} gs://${this.#bucket}/${this.#prefix}${key}`;
  }

  #object(key: string, query: Record<string, string | undefined>): URL {
    const name = encodePart(this.#prefix + key);
    return this.#calls.url(`/storage/v1/b/${this.#bucket}/o/${name}`, query);
  }

  async stat(key: string, signal?: AbortSignal): Promise<ObjectInfo | null> {
    const what = this.#what("the look for", key);
    const info = await this.#calls.call({
      method: "GET",
      what,
      url: this.#object(key, { fields: FIELDS }),
      takes: [404],
      signal,
    }, async (answer) => {
      const text = await textOf(answer);
      return answer.status === 404 ? null : infoOf(parseResource(what, text));
    });
    if (info === null) await this.#checkBucket();
    return info;
  }

  /** That an object is not there means something only when the bucket is. Throws `config` when it is not. */
  async #checkBucket(): Promise<void> {
    this.#found ??= this.#calls.call({
      method: "GET",
      what: `the look for the bucket ${this.#bucket}`,
      // What lists objects tells whether there is a bucket; to look at the bucket itself takes a right of its own.
      url: this.#calls.url(`/storage/v1/b/${this.#bucket}/o`, {
        prefix: `${this.#prefix}blake3/`,
        maxResults: "1",
        fields: "kind",
      }),
      takes: [403],
    }, async (answer) => await answer.discard());
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
      url: this.#object(key, { alt: "media", generation: tag }),
      headers: ranged ? { range: `bytes=${from}-${to === undefined ? "" : to - 1}` } : {},
      takes: [404, 416],
      signal,
    }, async (answer) => {
      if (answer.status !== 404 && answer.status !== 416) {
        const state = answer.headers.get("x-goog-generation") ?? "";
        const modified = Date.parse(answer.headers.get("last-modified") ?? "") || 0;
        return opened(
          what,
          answer,
          from,
          (size) => ({ size, tag: state, archived: null, md5: null, modified }),
        );
      }
      await answer.discard();
      if (answer.status === 416) return emptyObject();
      if (tag === undefined) return null;
      throw new SubletError("unavailable", `${what}: it was written anew meanwhile. Read it again`);
    });
    if (open === null) await this.#checkBucket();
    return open;
  }

  async put(key: string, frame: Frame, { onlyNew, signal }: PutOptions): Promise<string | null> {
    return await upload(this.#calls, frame, {
      what: this.#what("the put of", key),
      bucket: this.#bucket,
      name: this.#prefix + key,
      storageClass: this.#storageClass,
      onlyNew,
      signal,
    });
  }

  async holds(info: ObjectInfo, frame: Frame): Promise<boolean> {
    if (info.size !== frame.size || info.md5 === null) return false;
    return Buffer.from(await frame.hash("md5")).toString("hex") === info.md5;
  }

  /** With a tag it may be tried again: what was written since then has another one. */
  async remove(key: string, { tag }: { readonly tag?: string } = {}): Promise<boolean> {
    return await this.#calls.call({
      method: "DELETE",
      what: this.#what("the removal of", key),
      url: this.#object(key, { ifGenerationMatch: tag || undefined }),
      takes: [404, 412],
    }, async (answer) => {
      await answer.discard();
      return answer.status !== 412;
    });
  }

  async *list(prefix: string): AsyncGenerator<Listed, void, undefined> {
    const what = this.#what("the listing of", prefix);
    const start = this.#prefix + prefix;
    let next: string | undefined;
    do {
      const url = this.#calls.url(`/storage/v1/b/${this.#bucket}/o`, {
        prefix: start,
        maxResults: "1000",
        fields: `items(${FIELDS}),nextPageToken`,
        pageToken: next,
      });
      const found: z.output<typeof page> = await this.#calls.call(
        { method: "GET", what, url },
        async (answer) => parsePage(what, await textOf(answer)),
      );
      for (const { name, size, updated, generation } of found.items) {
        if (!name.startsWith(start)) continue;
        const key = name.slice(this.#prefix.length);
        yield { key, size, modified: Date.parse(updated) || 0, tag: generation };
      }
      if (found.nextPageToken !== undefined && found.nextPageToken === next) {
        throw new SubletError("unavailable", `${this.where}: its listing does not go on`);
      }
      next = found.nextPageToken || undefined;
    } while (next !== undefined);
  }
}

function parsePage(what: string, text: string): z.output<typeof page> {
  try {
    return page.parse(JSON.parse(text));
  } catch (error) {
    throw new SubletError("unavailable", `${what}: GCS answered with something else than a list`, {
      cause: error,
    });
  }
}

function infoOf({ size, generation, md5Hash, updated }: z.output<typeof resource>): ObjectInfo {
  const md5 = md5Hash === undefined ? null : Buffer.from(md5Hash, "base64").toString("hex");
  return { size, tag: generation, archived: null, md5, modified: Date.parse(updated) || 0 };
}

/** The URL of an emulator, as Google's own clients read the variable. */
function emulator(env: Env): string | null {
  const value = env.STORAGE_EMULATOR_HOST;
  if (!value) return null;
  return checkEndpoint("STORAGE_EMULATOR_HOST", value.includes("://") ? value : `http://${value}`);
}

/** Open the bucket `options.bucket`. Nothing is dialed yet. Throws `config` for settings that cannot be right. */
export async function openGcs(options: GcsOptions): Promise<ObjectsStore> {
  const { env, clock = systemClock, credentialsFile: file } = options;
  const prefix = cleanPrefix(options.prefix ?? "");
  if (prefix === null) {
    throw new SubletError("config", `${options.prefix}: no name of an object can start so`);
  }
  const hosts = new Hosts(env, options.ca);
  const fake = emulator(env);
  // An emulator asks nobody who they are, unless credentials are given for it.
  const tokens = fake !== null && file === undefined
    ? null
    : new GcsTokens({ file, env, hosts, clock });
  const endpoint = fake ?? "https://storage.googleapis.com";
  const calls = new GcsCalls({ endpoint, tokens, project: options.project, hosts, clock });
  const uploads = await prepareUploads(options.tmp, options.sweeps);
  const { keepEveryMs } = options;
  const bucket = new GcsBucket(calls, hosts, prefix, options);
  return openObjects(bucket, { uploads, clock, keepEveryMs });
}
