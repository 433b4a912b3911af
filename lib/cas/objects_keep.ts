/**
 * @module The age of objects in a bucket, and their removal by it.
 *
 * To write an object again would be dear. Whoever is told of an old one writes a small mark beside it instead, `kept`,
 * whose age counts as well. A collection announces what it is about to remove by another one, `doomed`, and looks at
 * `kept` after that; whoever keeps an object looks for `doomed` after `kept`. So one of the two sees the other. Both
 * need a bucket that shows at once what was written, as those of S3 and GCS do.
 */

import { type Clock, isError, SubletError } from "../home/mod.ts";
import { objectName } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { KeptLately } from "./gc_keep.ts";
import { type Bucket, type ObjectInfo, objectKey, OBJECTS } from "./objects.ts";
import { Frame } from "./objects_frame.ts";

/** An age is renewed only once in so many milliseconds: each time costs three requests. */
export const BUCKET_KEEP_MS = 12 * 60 * 60 * 1000;

/** So many milliseconds after it was announced, at the latest, a removal is sent, and no removal comes after these. */
const SEND_MS = 10_000;
const DOOMED_MS = 30_000;

/** Milliseconds between two looks for an announcement. */
const LOOK_MS = 250;

/** What the keys of objects start with by which a bucket is tried. */
export const TRIED = "tried/";

/** Keys of the marks beside the object of `cid`. */
export const keptKey = (cid: Cid) => `${OBJECTS}${objectName(cid)}/kept`;
export const doomedKey = (cid: Cid) => `${OBJECTS}${objectName(cid)}/doomed`;

const frameOf = (text: string) => Frame.of(new TextEncoder().encode(text));

/** Renews the age of a bucket's objects, and removes those that are too old. */
export class ObjectsKeeper {
  readonly #bucket: Bucket;
  readonly #clock: Clock;
  readonly #lately: KeptLately;
  readonly #renewing = new Map<string, Promise<boolean>>();

  constructor(bucket: Bucket, clock: Clock, readonly everyMs: number = BUCKET_KEEP_MS) {
    this.#bucket = bucket;
    this.#clock = clock;
    this.#lately = new KeptLately(everyMs);
  }

  /** The object of `cid` has just been written. */
  wrote(cid: Cid): void {
    this.#lately.add(cid);
  }

  /** Whether the age of the object was renewed so lately that it need not be looked at. */
  isKept(cid: Cid): boolean {
    return this.#lately.has(cid);
  }

  /** Renew the age of the object, found in the state `info`, if that is due; false when it has gone. */
  async keep(cid: Cid, info: ObjectInfo): Promise<boolean> {
    if (this.#lately.has(cid)) return true;
    const age = this.#clock.now() - info.modified;
    if (Math.abs(age) < this.everyMs) {
      this.#lately.add(cid, Date.now() - Math.max(0, age));
      return true;
    }
    const name = objectName(cid);
    const before = this.#renewing.get(name);
    if (before !== undefined) return await before;
    const renewed = this.#renew(cid).finally(() => this.#renewing.delete(name));
    this.#renewing.set(name, renewed);
    return await renewed;
  }

  async #renew(cid: Cid): Promise<boolean> {
    const now = Date.now();
    try {
      await this.#bucket.put(keptKey(cid), frameOf("kept"), { onlyNew: false });
    } catch (error) {
      // Who may not write in it cannot keep anything, and may read all the same.
      if (!isError(error, "config")) throw error;
      return true;
    }
    await this.#outlive(cid);
    if (await this.#bucket.stat(objectKey(cid)) === null) return false;
    this.#lately.add(cid, now);
    return true;
  }

  /** Wait until no collection is about to remove the object. One that a crash ended is not waited for any longer than it could have taken. */
  async #outlive(cid: Cid): Promise<void> {
    let seen: string | null = null;
    let until = Infinity;
    while (true) {
      const doomed = await this.#bucket.stat(doomedKey(cid));
      if (doomed === null) return;
      const now = this.#clock.monotonic();
      if (seen !== doomed.tag) until = now + DOOMED_MS;
      seen = doomed.tag;
      if (now >= until) return;
      await this.#clock.sleep(LOOK_MS);
    }
  }

  /** Remove the object if it is older than `before` (Unix ms, by the bucket's clock); its bytes, or null when it stays. */
  async collect(cid: Cid, before: number): Promise<number | null> {
    const announced = this.#clock.monotonic();
    const doomed = frameOf(crypto.randomUUID());
    // Another collection is at it, or a crash left this: the sweep removes it.
    if (await this.#bucket.put(doomedKey(cid), doomed, { onlyNew: true }) === null) return null;
    let unsure = false;
    try {
      const found = await this.#look(cid);
      if (found === null || found.newest >= before) return null;
      if (this.#clock.monotonic() - announced > SEND_MS) return null;
      unsure = true;
      const removed = await this.#bucket.remove(objectKey(cid), { once: true, tag: found.tag });
      unsure = false;
      if (removed && found.kept) await this.#bucket.remove(keptKey(cid));
      return removed ? found.size : null;
    } catch (error) {
      if (isError(error) && !isError(error, "unavailable", "unreachable")) unsure = false;
      throw error;
    } finally {
      // A removal whose answer was lost may still come: whoever keeps the object waits for it.
      if (!unsure) await this.#bucket.remove(doomedKey(cid));
    }
  }

  /** The object with its marks; null when there is none. */
  async #look(
    cid: Cid,
  ): Promise<{ size: number; tag: string; newest: number; kept: boolean } | null> {
    let found: { size: number; tag: string } | null = null;
    let newest = 0;
    let kept = false;
    for await (
      const { key, size, modified, tag } of this.#bucket.list(`${OBJECTS}${objectName(cid)}/`)
    ) {
      if (key === objectKey(cid)) found = { size, tag };
      else if (key === keptKey(cid)) kept = true;
      else continue;
      newest = Math.max(newest, modified);
    }
    return found === null ? null : { ...found, newest, kept };
  }

  /** Whether the bucket knows writes that only make new objects: without them nobody sees what others announce. */
  async isGuarded(): Promise<boolean> {
    const key = `${TRIED}${crypto.randomUUID()}`;
    try {
      const tries = [frameOf("1"), frameOf("2")];
      const tags: (string | null)[] = [];
      for (const frame of tries) tags.push(await this.#bucket.put(key, frame, { onlyNew: true }));
      return tags[0] !== null && tags[1] === null;
    } finally {
      await this.#bucket.remove(key);
    }
  }
}

/** A bucket that answers with contradictions. */
export function contradicts(cid: Cid): SubletError {
  return new SubletError(
    "unavailable",
    `blob ${cid}: the bucket says by turns that its object is there and that it is not`,
  );
}
