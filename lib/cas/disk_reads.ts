/** @module Reading from a disk store: whole, in parts, as frames, and whether it is undamaged. */

import { existsSync } from "node:fs";
import { setImmediate } from "node:timers";
import { isError } from "../home/mod.ts";
import { CheckedObjects } from "./checked_objects.ts";
import type { BlobBody, Cid, Integrity, Limits } from "./contract.ts";
import { DiskDirectory } from "./disk_directory.ts";
import { each } from "./each.ts";
import { isEmpty, noBytes } from "./empty.ts";
import { fileError, writeBeside } from "./files.ts";
import { checkCancelled, checkLength } from "./limits.ts";
import { decodeSmall } from "./object_decode.ts";
import type { Frame } from "./serving.ts";
import { SmallCache } from "./small_cache.ts";
import { readSmall, readStart } from "./small_file.ts";
import { StoredObject } from "./stored_object.ts";
import { BytesBody, collect, placesIn, streamOf } from "./streams.ts";
import { blobError, checkWhole } from "./verify.ts";
import { parseHeader } from "./zstd_frame.ts";

/** The largest blob whose small object is decoded in memory. */
const SMALL_DECODED = 1024 * 1024;

/** A frame that is not smaller than this share of its blob saves nothing. */
const WORTH = 0.97;

/** So many files are looked for at once: in the calling thread, which is several times less work than over another. */
const STATS = 1000;

/** The objects of a disk store, for those who read them. */
export class DiskReads extends DiskDirectory {
  /** What was hashed lately, by this process. */
  protected readonly checked = new CheckedObjects();
  readonly #small = new SmallCache();

  async has(cid: Cid): Promise<boolean> {
    if (isEmpty(cid)) return true;
    try {
      return (await Deno.stat(this.path(cid))).isFile && this.keeper.keep(cid);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      throw fileError(error, `cannot look for blob ${cid}`, "unavailable");
    }
  }

  async missing(cids: readonly Cid[]): Promise<Cid[]> {
    const lacking = new Set<Cid>();
    const unsure: Cid[] = [];
    const found: Cid[] = [];
    let at = 0;
    for (const cid of new Set(cids)) {
      if (existsSync(this.path(cid))) found.push(cid);
      else if (isEmpty(cid)) continue;
      else unsure.push(cid);
      // Many questions take a while, and others wait.
      if (++at % STATS === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    unsure.push(...(await this.keeper.keepAll(found)).filter((cid) => !isEmpty(cid)));
    // It may be there and not to be seen, which is no absence.
    await each(unsure, 16, async (cid) => {
      if (!await this.has(cid)) lacking.add(cid);
    });
    return cids.filter((cid) => lacking.has(cid));
  }

  /** The checked bytes of a blob whose object is small, its open object otherwise, or null when there is none. */
  async #load(cid: Cid): Promise<Uint8Array<ArrayBuffer> | StoredObject | null> {
    if (isEmpty(cid)) return noBytes();
    const path = this.path(cid);
    const found = this.#loadSmall(cid, path);
    return found === "large" ? await StoredObject.open(cid, path, this.checked) : found;
  }

  #loadSmall(cid: Cid, path: string): Uint8Array<ArrayBuffer> | "large" | null {
    try {
      const frame = readSmall(path);
      if (frame === null || frame === "large") return frame;
      const data = decodeSmall(frame, SMALL_DECODED);
      if (data === null) return "large";
      checkWhole(cid, data);
      // What was read is good only until the next read.
      return data.slice();
    } catch (error) {
      throw blobError(cid, error);
    }
  }

  atHand(cid: Cid): Uint8Array<ArrayBuffer> | null {
    const known = this.#small.find(cid);
    if (known !== null) return known;
    const path = this.path(cid);
    return this.#small.fill(cid, path, () => {
      const found = this.#loadSmall(cid, path);
      return found === "large" ? null : found;
    });
  }

  sizeAtHand(cid: Cid): number | null {
    const known = this.#small.find(cid)?.length ?? this.#announced(cid);
    return known !== null && this.keeper.keep(cid) ? known : null;
  }

  /** The length that the object's header says, if it says one. */
  #announced(cid: Cid): number | null {
    const start = readStart(this.path(cid));
    return start === null ? null : parseHeader(start)?.contentSize ?? null;
  }

  async getFrame(cid: Cid): Promise<Frame | null> {
    const object = await StoredObject.open(cid, this.path(cid), this.checked);
    return await object?.use(async () => {
      const { size } = object.info;
      const blob = await object.check();
      if (size < blob * WORTH) return { length: size, blob, stream: object.frame() };
      object[Symbol.dispose]();
      return null;
    }) ?? null;
  }

  async get(cid: Cid): Promise<Uint8Array | null> {
    const found = await this.#load(cid);
    if (!(found instanceof StoredObject)) return found;
    return await found.use(() => collect(found.stream()));
  }

  async getStream(cid: Cid, limits: Limits = {}): Promise<BlobBody | null> {
    checkCancelled(limits);
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof StoredObject)) {
      checkLength(found.length, limits, cid);
      return new BytesBody(found);
    }
    return await found.use(async () => {
      const length = await found.length();
      checkLength(length, limits, cid);
      return { length, stream: found.stream(limits) };
    });
  }

  async getRange(
    cid: Cid,
    from: number,
    to?: number,
    options: Pick<Limits, "transient"> = {},
  ): Promise<BlobBody | null> {
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof StoredObject)) return new BytesBody(found.slice(from, to), found.length);
    return await found.use(async () => {
      const length = await found.check();
      return { length, stream: found.part(length, ...placesIn(length, from, to), options) };
    });
  }

  async sizeOf(cid: Cid, options: { readonly check?: boolean } = {}): Promise<number | null> {
    if (isEmpty(cid)) return 0;
    const length = await this.#sizeOf(cid, options.check ?? false);
    return length !== null && this.keeper.keep(cid) ? length : null;
  }

  async #sizeOf(cid: Cid, check: boolean): Promise<number | null> {
    try {
      const path = this.path(cid);
      if (!check) {
        const start = readStart(path);
        const announced = start === null ? null : parseHeader(start)?.contentSize ?? null;
        if (start === null || announced !== null) return announced;
      }
      const found = await this.#load(cid);
      if (!(found instanceof StoredObject)) return found?.length ?? null;
      using object = found;
      return check ? await object.check() : await object.length();
    } catch (error) {
      if (isError(error, "integrity")) return null;
      throw error;
    }
  }

  async getFile(cid: Cid, path: string): Promise<number | null> {
    const found = await this.#load(cid);
    if (found === null) return null;
    if (!(found instanceof StoredObject)) return await writeBeside(path, streamOf(found));
    return await found.use(() => writeBeside(path, found.stream()));
  }

  async integrity(cid: Cid): Promise<Integrity> {
    try {
      // What was checked lately is checked again: that is what is asked for.
      using object = await StoredObject.open(cid, this.path(cid), new CheckedObjects());
      if (object === null) return isEmpty(cid) ? "ok" : "missing";
      await object.check();
      return await object.isAltered() ? "altered" : "ok";
    } catch (error) {
      if (isError(error, "integrity")) return "corrupt";
      throw error;
    }
  }
}
