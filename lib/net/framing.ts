/** @module A request whose length cannot be trusted is refused before anything reads it. */

import { SubletError } from "../home/mod.ts";
import { toResponse } from "./http_error.ts";

/**
 * The refusal of a request that is chunked and declares a length as well, null for any other. Its chunks count, so what
 * it declares would bound nothing, and a proxy in front may have seen another request
 * (https://www.rfc-editor.org/rfc/rfc9112#section-6.3).
 */
export function twoLengths({ headers }: Request): Response | null {
  if (!headers.has("transfer-encoding") || !headers.has("content-length")) return null;
  const response = toResponse(
    new SubletError(
      "invalid_request",
      "the request has both Content-Length and Transfer-Encoding: send one of them",
    ),
    "api",
  );
  response.headers.set("connection", "close");
  return response;
}
