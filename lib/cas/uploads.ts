/**
 * @module Uploads in parts: of one blob, by one token, over any number of requests and connections, in any order. Nothing
 * of it is visible in the store before all of it is there and hashed.
 */

import { type Clock, isError, SubletError, systemClock } from "../home/mod.ts";
import { cidOfDigest, rawCid, sameBlob } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { readPieces } from "./files.ts";
import type { Served } from "./http_get.ts";
import { TryLater } from "./http_limits.ts";
import { checkAddress } from "./limits.ts";
import { decode } from "./object_decode.ts";
import { isDense } from "./object_encode.ts";
import { PartFile } from "./part_file.ts";
import { streamFrom } from "./streams.ts";
import { newUploadId, UploadFiles } from "./upload_files.ts";
import { Upload } from "./upload.ts";

/** How uploads are kept. */
export interface UploadsOptions {
  /** Where the parts are kept, when the store has no place for them on its own disk. */
  readonly directory: string;
  /** Uploads of one token that may be open. Default 64. */
  readonly perToken?: number;
  /** Bytes of the blobs of one token's open uploads. Default 256 GiB. */
  readonly bytesPerToken?: number;
  /** An upload is given up when no part of it came for so many milliseconds. Default: a day. */
  readonly maxAgeMs?: number;
  readonly clock?: Clock;
}

const PER_TOKEN = 64;
const BYTES_PER_TOKEN = 256 * 2 ** 30;
const DAY_MS = 24 * 60 * 60 * 1000;

/** So many that are done are remembered, for a client that lost the answer. */
const DONE = 1024;

/** What became of an upload. */
export interface Done {
  readonly id: string;
  readonly token: string;
  readonly cid: Cid;
  readonly length: number;
}

/** The uploads of one store. */
export class Uploads {
  readonly #cas: Served;
  readonly #files: UploadFiles;
  readonly #clock: Clock;
  readonly #options: UploadsOptions;
  readonly #open = new Map<string, Upload>();
  /** Those that are being made or looked for, so that a question that comes twice makes one. */
  readonly #beginning = new Map<string, Promise<Upload>>();
  readonly #done = new Map<string, Done>();

  private constructor(cas: Served, files: UploadFiles, options: UploadsOptions) {
    this.#cas = cas;
    this.#files = files;
    this.#clock = options.clock ?? systemClock;
    this.#options = options;
  }

  /** The uploads into `cas`, with those that an earlier process left. */
  static async open(cas: Served, options: UploadsOptions): Promise<Uploads> {
    const files = new UploadFiles(cas.waiting ?? options.directory);
    const uploads = new Uploads(cas, files, options);
    await uploads.#load();
    return uploads;
  }

  async #load(): Promise<void> {
    const { maxAgeMs = DAY_MS } = this.#options;
    for (const { id, cid, length, token } of await this.#files.sweep(this.#clock.now(), maxAgeMs)) {
      const recover = () => PartFile.recover(this.#files.path(id), length);
      this.#open.set(id, new Upload(id, cid, length, token, this.#clock, recover));
    }
  }

  /** Whether the store has the blob undamaged, as far as it can tell without sending it. */
  async holds(cid: Cid): Promise<boolean> {
    if (this.#cas.sizeOf === undefined) return await this.#cas.has(cid);
    return await this.#cas.sizeOf(cid, { check: true }) !== null;
  }

  /** Bytes that open uploads have announced, and not sent yet. */
  get pending(): number {
    let bytes = 0;
    for (const upload of this.#open.values()) bytes += upload.left;
    return bytes;
  }

  /** How long an upload is kept without a part, in seconds. */
  get maxAgeSeconds(): number {
    return Math.floor((this.#options.maxAgeMs ?? DAY_MS) / 1000);
  }

  /**
   * The upload of `cid` by `token`, which is made when there is none. `reserve` is called for a new one, and may refuse
   * it. Throws `busy` when the token has too many.
   */
  begin(
    token: string,
    cid: Cid,
    length: number,
    reserve: () => Promise<unknown>,
  ): Promise<Upload> {
    const key = `${token} ${rawCid(cid)} ${length}`;
    const known = this.#beginning.get(key);
    if (known !== undefined) return known;
    const begun = this.#begin(token, cid, length, reserve);
    this.#beginning.set(key, begun);
    return begun.finally(() => this.#beginning.delete(key));
  }

  async #begin(
    token: string,
    cid: Cid,
    length: number,
    reserve: () => Promise<unknown>,
  ): Promise<Upload> {
    await this.#dropOld();
    for (const upload of this.#open.values()) {
      const same = upload.token === token && sameBlob(upload.cid, cid) && upload.length === length;
      if (same && await upload.file() !== null) return upload;
    }
    this.#checkRoom(token, length);
    await reserve();
    const id = newUploadId();
    await this.#files.make();
    const file = PartFile.create(this.#files.path(id), length);
    try {
      this.#files.remember(id, { cid, length, token });
    } catch (error) {
      await Deno.remove(file.path).catch(() => {});
      throw error;
    }
    const upload = new Upload(id, cid, length, token, this.#clock, () => Promise.resolve(file));
    this.#open.set(id, upload);
    return upload;
  }

  #checkRoom(token: string, length: number): void {
    const { perToken = PER_TOKEN, bytesPerToken = BYTES_PER_TOKEN } = this.#options;
    const own = [...this.#open.values()].filter((upload) => upload.token === token);
    const bytes = own.reduce((sum, upload) => sum + upload.length, 0);
    if (length > bytesPerToken) {
      throw new SubletError(
        "too_large",
        `the blob has ${length} bytes, and what a token uploads in parts may have ${bytesPerToken}`,
      );
    }
    if (own.length < perToken && bytes + length <= bytesPerToken) return;
    throw new TryLater(
      "busy",
      `${token} has ${own.length} uploads of ${bytes} bytes open, and may have ${perToken} of ` +
        `${bytesPerToken}: finish or delete some`,
      10,
    );
  }

  async #dropOld(): Promise<void> {
    const { maxAgeMs = DAY_MS } = this.#options;
    const now = this.#clock.now();
    for (const upload of this.#open.values()) {
      if (!upload.busy && now - upload.touchedAt > maxAgeMs) await this.remove(upload);
    }
  }

  /** The open upload `id` of `token`, or what became of it. Throws `not_found`; another token's is not there, either. */
  find(token: string, id: string): Upload | Done {
    const found = this.#open.get(id) ?? this.#done.get(id);
    if (found !== undefined && found.token === token) return found;
    throw new SubletError(
      "not_found",
      `there is no upload ${
        id.slice(0, 64)
      }: it ended, it was given up, or it is another token's. Begin again`,
    );
  }

  /** Give `upload` up. */
  async remove(upload: Upload): Promise<void> {
    this.#open.delete(upload.id);
    await upload.stop(givenUp(upload.id));
    await this.#files.remove(upload.id);
  }

  /** Store the blob of `upload`, which is complete. One that is another blob than was announced is given up. */
  async finish(upload: Upload): Promise<void> {
    await upload.once(async () => {
      // Another part was the last one, too.
      if (this.#done.has(upload.id)) return;
      if (this.#open.get(upload.id) !== upload) throw givenUp(upload.id);
      try {
        await this.#store(upload);
      } catch (error) {
        // It will not be another blob the next time.
        const lost = isError(error, "cid_mismatch", "invalid_request", "conflict", "integrity");
        if (lost) await this.remove(upload);
        throw error;
      }
      this.#open.delete(upload.id);
      const { id, token, cid, length } = upload;
      this.#done.set(id, { id, token, cid, length });
      const [oldest] = this.#done.keys();
      if (this.#done.size > DONE && oldest !== undefined) this.#done.delete(oldest);
      await this.#files.remove(id);
    });
  }

  async #store({ cid, length, file: load }: Upload): Promise<void> {
    const file = await load();
    if (file === null) throw new SubletError("conflict", "the upload's file is gone: begin again");
    await file.settle();
    const { adopt } = this.#cas;
    if (adopt === undefined || !isDense(await file.samples())) {
      // It is compressed on its way into the store, which hashes it, too.
      const content = streamFrom(decode(() => readPieces(file.path)));
      await this.#cas.putStream(content, { expectedCid: cid, expectedLength: length });
      return;
    }
    checkAddress(cidOfDigest(await file.digest()), { expectedCid: cid });
    await adopt.call(this.#cas, cid, file.path, length);
  }
}

function givenUp(id: string): SubletError {
  return new SubletError("conflict", `the upload ${id} was given up: begin again`);
}
