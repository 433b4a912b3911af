/** @module The codings of a body: as it is, or as one zstd frame (RFC 8878, RFC 9110 section 8.4). */

import { Refusal } from "./http_refusal.ts";

/** Whether `Accept-Encoding` takes zstd. A `*` is not meant: what says no more cannot be relied on to know zstd. */
export function acceptsZstd(header: string | null): boolean {
  if (header === null || !/zstd/i.test(header)) return false;
  return header.split(",").some((part) => {
    const [coding, ...parameters] = part.trim().split(";");
    if (coding?.trim().toLowerCase() !== "zstd") return false;
    const weight = parameters.map((text) => /^\s*q=([\d.]+)\s*$/i.exec(text)?.[1]).find(Boolean);
    return weight === undefined || Number(weight) > 0;
  });
}

/** Whether an upload's body is a zstd frame, by its `Content-Encoding`. Throws (415) for any other coding. */
export function isZstd(header: string | null): boolean {
  const coding = header?.trim().toLowerCase() ?? "";
  if (coding === "" || coding === "identity") return false;
  if (coding === "zstd") return true;
  throw new Refusal(
    "invalid_request",
    `a body with Content-Encoding ${
      JSON.stringify(coding.slice(0, 40))
    } is not taken: send it as ` +
      "it is, or as one zstd frame",
    { "accept-encoding": "zstd" },
    415,
  );
}
