/** @module Sending: a bundle of what some commits have beyond others, as one blob. */

import type { Cas } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import { type BundleHeader, encodeHeader } from "./bundle.ts";
import type { Sent } from "./contract.ts";
import type { Git } from "./git_call.ts";
import { onPlace, type Place } from "./place.ts";

/** Refuse a shallow repository: its oldest commits name parents that nobody could be sent. */
export async function refuseShallow(place: Place): Promise<void> {
  try {
    if ((await Deno.stat(`${place.commonDir}/shallow`)).size === 0) return;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  throw new SubletError(
    "failed",
    `the repository at ${place.commonDir} is a shallow clone, so its history cannot be sent. ` +
      "Run `git fetch --unshallow` in it",
  );
}

/** `head` and then the file at `path`. */
function headed(head: Uint8Array, path: string): ReadableStream<Uint8Array> {
  let body: ReadableStreamDefaultReader<Uint8Array> | null = null;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(head);
    },
    async pull(controller) {
      body ??= (await Deno.open(path)).readable.getReader();
      const { done, value } = await body.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel(reason) {
      await body?.cancel(reason);
    },
  });
}

/** How many objects the pack at `path` holds, and its size. */
async function measurePack(path: string): Promise<{ objects: number; bytes: number }> {
  using file = await Deno.open(path);
  const head = new Uint8Array(12);
  let filled = 0;
  while (filled < head.length) {
    const read = await file.read(head.subarray(filled));
    if (read === null) throw new SubletError("failed", "git wrote a pack without a header");
    filled += read;
  }
  return { objects: new DataView(head.buffer).getUint32(8), bytes: (await file.stat()).size };
}

/**
 * Put a bundle of `header.heads` beyond `header.prerequisites`, all of them here, into `cas`; null when that is no
 * object at all. `scratch` is a path for the pack, removed afterwards.
 */
export async function sendBundle(
  git: Git,
  place: Place,
  cas: Cas,
  header: BundleHeader,
  scratch: string,
  signal?: AbortSignal,
): Promise<Sent | null> {
  const revisions = [...header.heads, ...header.prerequisites.map((id) => `^${id}`)];
  try {
    await onPlace(git, place, {
      // Thin: a delta's base may be what the prerequisites have, which the receiver holds.
      args: ["pack-objects", "--stdout", "--revs", "--thin", "--delta-base-offset", "-q"],
      stdin: revisions.map((line) => `${line}\n`).join(""),
      stdoutPath: scratch,
    });
    signal?.throwIfAborted();
    const pack = await measurePack(scratch);
    if (pack.objects === 0) return null;
    const head = encodeHeader(header);
    const blob = await cas.putStream(headed(head, scratch), signal === undefined ? {} : { signal });
    return { blob, bytes: head.length + pack.bytes };
  } finally {
    await Deno.remove(scratch).catch(() => {});
  }
}
