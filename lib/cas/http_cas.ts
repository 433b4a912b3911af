/** @module The `http` provider: a store that is served as in `http_service.ts`, by us or by piloop. */

import { type Clock, SubletError } from "../home/mod.ts";
import type { HttpClient } from "../net/mod.ts";
import type { BlobBody, Cas, Cid, Limits, Upkeep } from "./contract.ts";
import { each } from "./each.ts";
import { writeBeside } from "./files.ts";
import { type CallRequest, HttpCalls } from "./http_calls.ts";
import { blobPath, download, isFrame, requestBlob } from "./http_download.ts";
import { acceptsZstd } from "./http_encoding.ts";
import { PartsClient } from "./http_upload.ts";
import { CHECK_HEADER, LENGTH_HEADER, MAX_CIDS, missingAnswer } from "./http_wire.ts";
import { checkAddress, checkCancelled, checkLength } from "./limits.ts";
import { spool, type Spooled, spooledBytes, spooledFile, type TakesKnown } from "./spool.ts";
import { encode } from "./object_encode.ts";
import { collect, streamFrom } from "./streams.ts";
import { verified } from "./verify.ts";

/** Smaller blobs are sent without asking whether the store has them: the question costs as much. */
const UNASKED = 64 * 1024;

/** Larger blobs are sent in parts. */
const IN_PARTS = 8 * 1024 * 1024;

/** Addresses of one question. */
const BATCH = MAX_CIDS;

/** A frame that is not smaller than this share of its blob is not worth decoding. */
const WORTH = 0.9;

/** Questions at once, to a store that takes one address each. */
const WIDTH = 16;

/** Milliseconds for the answer to a put: the store reads and syncs it all first. */
const PUT_TIMEOUT_MS = 120_000;

/** How a store over HTTP is used. */
export interface HttpCasOptions {
  /** An existing directory for streams that wait there until their length is known. Default: the system's. */
  readonly tmp?: string;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Whether the client is closed when the store is disposed. Default: it stays the caller's. */
  readonly ownsClient?: boolean;
}

class HttpCas implements Cas, Pick<Upkeep, "integrity">, TakesKnown, AsyncDisposable {
  readonly #calls: HttpCalls;
  readonly #parts: PartsClient;
  readonly #tmp: string | undefined;
  readonly #owned: HttpClient | null;
  /** Whether the server takes questions about many blobs. Null: not known yet. */
  #batches: boolean | null = null;
  /** Whether the server takes bodies that are zstd frames: it says so. */
  #zstd = false;

  constructor(client: HttpClient, options: HttpCasOptions) {
    this.#calls = new HttpCalls(client, options.clock);
    this.#parts = new PartsClient(this.#calls);
    this.#tmp = options.tmp;
    this.#owned = options.ownsClient ? client : null;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#owned?.[Symbol.dispose]();
    return Promise.resolve();
  }

  async has(cid: Cid): Promise<boolean> {
    return await this.#head(cid, {});
  }

  /** Let the server read and hash the blob. One that does not do so for a HEAD (piloop's) says only whether it is there. */
  async integrity(cid: Cid): Promise<"ok" | "missing" | "corrupt"> {
    if (await this.#head(cid, { [CHECK_HEADER]: "1" })) return "ok";
    return await this.has(cid) ? "corrupt" : "missing";
  }

  async #head(cid: Cid, headers: Record<string, string>, signal?: AbortSignal): Promise<boolean> {
    const request: CallRequest = {
      method: "HEAD",
      path: blobPath(cid),
      headers,
      ...(signal === undefined ? {} : { signal }),
    };
    const answer = await this.#calls.call(request);
    this.#zstd ||= acceptsZstd(answer.headers.get("accept-encoding"));
    if (answer.status === 200 || answer.status === 404) {
      await answer.discard();
      return answer.status === 200;
    }
    throw await this.#calls.refused(request, answer);
  }

  async missing(cids: readonly Cid[]): Promise<Cid[]> {
    const unique = [...new Set(cids)];
    const lacking = await this.#askAll(unique) ?? await this.#askEach(unique);
    return cids.filter((cid) => lacking.has(cid));
  }

  /** Those of `cids` that are lacking, or null when the server does not take such questions. */
  async #askAll(cids: readonly Cid[]): Promise<Set<Cid> | null> {
    const lacking = new Set<Cid>();
    for (let at = 0; at < cids.length; at += BATCH) {
      if (this.#batches === false) return null;
      const question = new TextEncoder().encode(
        JSON.stringify({ cids: cids.slice(at, at + BATCH) }),
      );
      const request: CallRequest = {
        method: "POST",
        path: "/v1/cas/missing",
        headers: { "content-type": "application/json" },
        body: () => question,
      };
      const answer = await this.#calls.call(request);
      if ([400, 404, 405, 501].includes(answer.status)) {
        await answer.discard();
        this.#batches = false;
        return null;
      }
      if (answer.status !== 200) throw await this.#calls.refused(request, answer);
      const text = new TextDecoder().decode(await answer.bytes());
      for (const cid of this.#readMissing(text)) lacking.add(cid);
      this.#batches = true;
    }
    return lacking;
  }

  #readMissing(text: string): Cid[] {
    try {
      return missingAnswer.parse(JSON.parse(text)).missing;
    } catch (error) {
      throw new SubletError(
        "unavailable",
        `${this.#calls.client.url} answered POST /v1/cas/missing with something else than CIDs. Is it a store?`,
        { cause: error },
      );
    }
  }

  async #askEach(cids: readonly Cid[]): Promise<Set<Cid>> {
    const lacking = new Set<Cid>();
    await each(cids, WIDTH, async (cid) => {
      if (!await this.has(cid)) lacking.add(cid);
    });
    return lacking;
  }

  async put(data: Uint8Array, limits: Limits = {}): Promise<Cid> {
    checkCancelled(limits);
    checkLength(data.length, limits);
    const blob = spooledBytes(data);
    checkAddress(blob.cid, limits);
    return await this.#send(blob, limits.signal);
  }

  async putStream(source: ReadableStream<Uint8Array>, limits: Limits = {}): Promise<Cid> {
    await using blob = await spool(source, limits, this.#tmp);
    return await this.#send(blob, limits.signal);
  }

  async putFile(path: string): Promise<Cid> {
    await using blob = await spooledFile(path);
    return await this.#send(blob);
  }

  putKnown(blob: Spooled): Promise<Cid> {
    return this.#send(blob);
  }

  async #send(blob: Spooled, signal?: AbortSignal): Promise<Cid> {
    const { cid, length, bytes } = blob;
    if (length > UNASKED && await this.#head(cid, { [CHECK_HEADER]: "1" }, signal)) return cid;
    if (length > IN_PARTS && await this.#parts.send(blob, signal)) return cid;
    const frame = this.#zstd && length > UNASKED ? await frameOf(blob) : null;
    const request: CallRequest = {
      method: "PUT",
      path: blobPath(cid),
      headers: {
        "content-type": "application/octet-stream",
        ...(frame === null ? {} : { "content-encoding": "zstd" }),
      },
      timeoutMs: PUT_TIMEOUT_MS,
      body: () => frame ?? bytes ?? { stream: blob.open(), length },
      ...(signal === undefined ? {} : { signal }),
    };
    const answer = await this.#calls.call(request);
    if (answer.status >= 200 && answer.status < 300) {
      await answer.discard();
      return cid;
    }
    const error = await this.#calls.refused(request, answer);
    if (error.code !== "cid_mismatch") throw error;
    throw new SubletError("integrity", `blob ${cid} changed while it was sent: ${error.message}`, {
      cause: error,
    });
  }

  async get(cid: Cid): Promise<Uint8Array | null> {
    const body = await this.getStream(cid);
    return body === null ? null : await collect(body.stream);
  }

  async getStream(cid: Cid, limits: Limits = {}): Promise<BlobBody | null> {
    checkCancelled(limits);
    const answer = await requestBlob(this.#calls, cid, 0, limits.signal);
    if (answer === null) return null;
    const header = answer.headers.get(isFrame(answer) ? LENGTH_HEADER : "content-length") ?? "";
    const length = /^\d{1,15}$/.test(header) ? Number(header) : null;
    try {
      if (length !== null) checkLength(length, limits, cid);
    } catch (error) {
      await answer.discard();
      throw error;
    }
    const bytes = verified(cid, download(this.#calls, cid, answer, limits.signal), limits);
    return { length, stream: streamFrom(bytes, { close: () => void answer.discard() }) };
  }

  async getFile(cid: Cid, path: string): Promise<number | null> {
    const body = await this.getStream(cid);
    return body === null ? null : await writeBeside(path, body.stream);
  }
}

/** The frame of `blob`, if it is small enough for memory, and the frame is clearly smaller. */
async function frameOf({ bytes, length, open }: Spooled): Promise<Uint8Array | null> {
  if (length > IN_PARTS) return null;
  const frame = await encode(bytes ?? await collect(open()));
  return frame.length < length * WORTH ? frame : null;
}

/** The store behind `client`. */
export function openHttpCas(
  client: HttpClient,
  options: HttpCasOptions = {},
): Cas & Pick<Upkeep, "integrity"> & TakesKnown & AsyncDisposable {
  return new HttpCas(client, options);
}
