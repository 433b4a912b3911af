/** @module A blob on its way from a store's HTTP service, which goes on where it broke off. */

import { isError, SubletError } from "../home/mod.ts";
import type { HttpResponse } from "../net/mod.ts";
import { rawCid } from "./cid.ts";
import type { Cid } from "./contract.ts";
import { type HttpCalls, Retry } from "./http_calls.ts";
import { LENGTH_HEADER } from "./http_wire.ts";
import { decode } from "./object_decode.ts";

/** The path of a blob. */
export function blobPath(cid: Cid): string {
  return `/v1/cas/${rawCid(cid)}`;
}

/** Ask for the blob, from byte `from` on; null when the store lacks it. */
export async function requestBlob(
  calls: HttpCalls,
  cid: Cid,
  from: number,
  signal: AbortSignal | undefined,
  retry?: Retry,
): Promise<HttpResponse | null> {
  const request = {
    method: "GET",
    path: blobPath(cid),
    // A part of a blob comes as it is: a place in a frame means nothing.
    headers: from === 0
      ? { "accept-encoding": "zstd" }
      : { range: `bytes=${from}-`, "if-range": `"${rawCid(cid)}"` },
    ...(signal === undefined ? {} : { signal }),
  };
  const answer = await calls.call(request, retry);
  if (answer.status === 200 || answer.status === 206) return answer;
  const error = await calls.refused(request, answer);
  if (error.code === "not_found") return null;
  throw error;
}

/** Whether the body of `answer` is a zstd frame. */
export function isFrame(answer: HttpResponse): boolean {
  return answer.headers.get("content-encoding")?.trim().toLowerCase() === "zstd";
}

/** The bytes of the blob in `answer`. */
function contentOf(answer: HttpResponse): AsyncIterable<Uint8Array> {
  if (!isFrame(answer)) return answer.stream();
  let opened = false;
  const content = decode(() => {
    if (opened) {
      throw new SubletError("integrity", "its frame mixes blocks in a way that no encoder does");
    }
    opened = true;
    return answer.stream();
  });
  return bounded(content, Number(answer.headers.get(LENGTH_HEADER) ?? Infinity));
}

/** `content`, as long as it is no longer than was announced: a few bytes can unfold to any number. */
async function* bounded(content: AsyncIterable<Uint8Array>, length: number) {
  let left = length;
  for await (const bytes of content) {
    left -= bytes.length;
    if (left < 0) {
      throw new SubletError("integrity", `it has more than the ${length} bytes announced`);
    }
    yield bytes;
  }
}

/**
 * The bytes of the blob `cid`, of which `first` is the answer to the first request. When the connection breaks, it
 * asks for the rest; a server that sends all of it again is taken from where it had come to.
 */
export async function* download(
  calls: HttpCalls,
  cid: Cid,
  first: HttpResponse,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  let answer: HttpResponse = first;
  let at = 0;
  let skip = 0;
  let retry = new Retry(calls.clock);
  while (true) {
    try {
      for await (const bytes of contentOf(answer)) {
        const fresh = bytes.subarray(Math.min(skip, bytes.length));
        skip -= bytes.length - fresh.length;
        if (fresh.length === 0) continue;
        at += fresh.length;
        // It goes on: the next break has a window of its own.
        retry = new Retry(calls.clock);
        yield fresh;
      }
      return;
    } catch (error) {
      if (signal?.aborted) {
        throw new SubletError("cancelled", `the get of blob ${cid} was cancelled`, {
          cause: signal.reason,
        });
      }
      if (!isError(error, "unreachable") || !await retry.next(0, signal)) throw error;
    }
    const next = await requestBlob(calls, cid, at, signal, retry);
    if (next === null) {
      throw new SubletError("unavailable", `blob ${cid} went away while it was read`);
    }
    answer = next;
    skip = next.status === 206 ? at - startOf(next) : at;
    if (skip < 0) throw new SubletError("unavailable", `blob ${cid}: the server sent another part`);
  }
}

/** The first byte that a partial answer holds. */
function startOf(answer: HttpResponse): number {
  const match = /^bytes (\d{1,15})-/.exec(answer.headers.get("content-range") ?? "");
  return match === null ? NaN : Number(match[1]);
}
