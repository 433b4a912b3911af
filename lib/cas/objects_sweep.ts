/** @module What crashes left in a bucket: uploads that were begun, and marks beside objects that are gone. */

import { type Clock, isError } from "../home/mod.ts";
import { objectName } from "./cid.ts";
import type { Leftovers } from "./contract.ts";
import { type Bucket, keyToCid, OBJECTS } from "./objects.ts";
import { TRIED } from "./objects_keep.ts";

/** What is younger may be somebody's: a large blob takes its time to be sent, and clocks differ. */
const STALE_MS = 25 * 60 * 60 * 1000;

/** Remove, or only count, what nobody can be at work on any more. */
export async function sweepBucket(
  bucket: Bucket,
  clock: Clock,
  dryRun: boolean,
): Promise<Leftovers> {
  const before = clock.now() - STALE_MS;
  let count = 0;
  let bytes = 0;
  const drop = async (size: number, remove: () => Promise<unknown>) => {
    if (!dryRun) await remove();
    count++;
    bytes += size;
  };
  for await (const { key, size } of marks(bucket, before)) {
    await drop(size, () => bucket.remove(key));
  }
  for await (const { key, size, modified } of bucket.list(TRIED)) {
    if (modified < before) await drop(size, () => bucket.remove(key));
  }
  try {
    for await (const upload of bucket.unfinished?.(OBJECTS) ?? []) {
      if (upload.begun < before) await drop(await upload.size(), () => upload.abort());
    }
  } catch (error) {
    // Not every server lists them, nor may everybody who may use objects. Rules of the bucket can end them, too.
    if (!isError(error, "config")) throw error;
  }
  return { count, bytes };
}

/** Old marks of objects that are not there, and old announcements of removals that never came. */
async function* marks(
  bucket: Bucket,
  before: number,
): AsyncGenerator<{ key: string; size: number }> {
  const objects = new Set<string>();
  const found: { key: string; size: number; name: string }[] = [];
  for await (const { key, size, modified } of bucket.list(OBJECTS)) {
    const cid = keyToCid(key);
    if (cid !== null) objects.add(objectName(cid));
    const [, name = "", mark] = /^blake3\/([a-z2-7]{52})\/(kept|doomed)$/.exec(key) ?? [];
    if (mark === undefined || modified >= before) continue;
    if (mark === "doomed") yield { key, size };
    else found.push({ key, size, name });
  }
  for (const mark of found) {
    if (objects.has(mark.name)) continue;
    // It may have been put since.
    if (await bucket.stat(`${OBJECTS}${mark.name}/bytes.zst`) === null) yield mark;
  }
}
