/** @module An object in the answer to a request for it, or for a part of it. */

import { SubletError } from "../home/mod.ts";
import type { HttpResponse } from "../net/mod.ts";
import type { ObjectInfo, OpenObject } from "./objects.ts";

/** The object that `answer` delivers, asked for from byte `from` on; `infoOf` makes its state from its whole size. */
export function opened(
  what: string,
  answer: HttpResponse,
  from: number,
  infoOf: (size: number) => ObjectInfo,
): OpenObject {
  const { headers, status } = answer;
  const range = /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15})$/.exec(headers.get("content-range") ?? "");
  const [size, start] = status === 206
    ? [Number(range?.[2]), Number(range?.[1])]
    : [Number(headers.get("content-length") ?? NaN), 0];
  if (!Number.isSafeInteger(size) || !Number.isSafeInteger(start) || start > from) {
    void answer.discard();
    throw new SubletError("unavailable", `${what}: the answer does not say which part it is`);
  }
  return { info: infoOf(size), from: start, stream: answer.stream() };
}

/** An object without a byte, of which no part can be had. */
export function emptyObject(): OpenObject {
  const stream = new ReadableStream<Uint8Array>({ start: (controller) => controller.close() });
  return { info: { size: 0, tag: "", archived: null, md5: null, modified: 0 }, from: 0, stream };
}
