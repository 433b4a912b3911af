/**
 * @module The objects kit: what stores of objects share, whatever keeps the objects. A blob is the object
 * `blake3/<name>/bytes.zst`, one zstd frame (`object_encode.ts`, `object_decode.ts`), in a directory and in a bucket
 * alike, so that either may be copied to the other.
 */

import { nameToCid, objectName } from "./cid.ts";
import type { Cid } from "./contract.ts";
import type { Frame } from "./objects_frame.ts";

/** What the keys of all objects start with. */
export const OBJECTS = "blake3/";

const SUFFIX = "/bytes.zst";

/** The key of a blob's object, from the store's root. */
export function objectKey(cid: Cid): string {
  return OBJECTS + objectName(cid) + SUFFIX;
}

/** The blob whose object has `key`, or null when it is no object's key. */
export function keyToCid(key: string): Cid | null {
  if (!key.startsWith(OBJECTS) || !key.endsWith(SUFFIX)) return null;
  return nameToCid(key.slice(OBJECTS.length, -SUFFIX.length));
}

/** One state of an object. */
export interface ObjectInfo {
  /** Stored bytes. */
  readonly size: number;
  /** Another one whenever the object is written. Empty: the bucket does not tell. */
  readonly tag: string;
  /** The class in which it cannot be read before somebody restores it. Null: it can be read. */
  readonly archived: string | null;
  /** MD5 of its bytes, lower-case hex, when the bucket tells. */
  readonly md5: string | null;
  /** Unix ms of its last write, by the bucket's clock; 0 when it does not tell. */
  readonly modified: number;
}

/** An object on its way out of a bucket. */
export interface OpenObject {
  readonly info: ObjectInfo;
  /** The place in the object at which `stream` starts. */
  readonly from: number;
  readonly stream: ReadableStream<Uint8Array>;
}

/** What of an object is read. */
export interface Part {
  /** Default: the start. */
  readonly from?: number;
  /** Up to and without this place. Default: the end. */
  readonly to?: number;
  /** Only this state of it; any other fails with `unavailable`. */
  readonly tag?: string;
  readonly signal?: AbortSignal | undefined;
}

/** How an object is written. */
export interface PutOptions {
  /** Leave an object that is there already as it is. */
  readonly onlyNew: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** An object as a bucket lists it. */
export interface Listed {
  readonly key: string;
  /** Stored bytes. */
  readonly size: number;
  /** Unix ms of its last write, by the bucket's clock. */
  readonly modified: number;
  /** Of its state; empty when the listing does not tell. */
  readonly tag: string;
}

/** An upload that was begun and not ended. */
export interface Unfinished {
  readonly key: string;
  /** Unix ms. */
  readonly begun: number;
  /** Stored bytes so far. */
  size(): Promise<number>;
  /** Give it up. */
  abort(): Promise<void>;
}

/**
 * What a store needs of a bucket. Keys are from the store's root. Every call tries again by itself what may succeed
 * later, and then fails with `unavailable`; what needs a person fails with `config`, and says what to do.
 */
export interface Bucket extends Disposable {
  /** One spelling of where it is, such as `s3://bucket/prefix`. */
  readonly where: string;
  /** The state of an object, or null when there is none. */
  stat(key: string, signal?: AbortSignal): Promise<ObjectInfo | null>;
  /** Start to read an object. The stream may break off (`unreachable`); null: there is no object. */
  open(key: string, part?: Part): Promise<OpenObject | null>;
  /** Write an object, whole or not at all; its state's tag, or null when one was there that was to be left alone. */
  put(key: string, frame: Frame, options: PutOptions): Promise<string | null>;
  /** Whether the object with this state has, for certain, the bytes of `frame`. */
  holds(info: ObjectInfo, frame: Frame): Promise<boolean>;
  /**
   * Remove an object; false when it has another state than `tag`, as far as the bucket compares them. There may be none.
   * `once`: it is not tried again, since what failed may be done later.
   */
  remove(
    key: string,
    options?: { readonly once?: boolean; readonly tag?: string },
  ): Promise<boolean>;
  /** Every key that starts with `prefix`. */
  list(prefix: string): AsyncIterable<Listed>;
  /** Uploads under way, and those that crashes ended, as far as the bucket tells. */
  unfinished?(prefix: string): AsyncIterable<Unfinished>;
}
