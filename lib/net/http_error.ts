/** @module How an error becomes the answer to a request, in the two shapes that our routes use. */

import { type ErrorCode, type Log, messageOf, SubletError } from "../home/mod.ts";

/**
 * The shape of a refusal's body: `api` is `{code, message}` (the HTTP API and the CAS), `executor` is
 * `{detail, error?}` (`/v1/executor/*`, where `error` is there for the codes that worker protocol 7 names).
 */
export type ErrorStyle = "api" | "executor";

/** Codes that an executor route puts in `error`; refusals by anything before the route have `detail` alone. */
const EXECUTOR_CODES: ReadonlySet<ErrorCode> = new Set([
  "dismissed",
  "missing_blobs",
  "not_addressed",
  "not_sent",
  "other_cas",
  "protocol",
  "reserved",
  "stale_lease",
  "superseded",
  "unknown_worker",
  "unsafe_path",
]);

/** The body of a refusal in `style`. */
export function errorBody(
  code: ErrorCode,
  message: string,
  style: ErrorStyle,
): Record<string, string> {
  if (style === "api") return { code, message };
  return EXECUTOR_CODES.has(code) ? { error: code, detail: message } : { detail: message };
}

/** Anything that was thrown, as ours. The text of an unexpected error stays on this side of the wire. */
function ours(error: unknown): SubletError {
  if (error instanceof SubletError && error.code !== "internal") return error;
  return new SubletError("internal", "the server failed: its log has the reason", { cause: error });
}

/** The answer that carries `error`. */
export function toResponse(error: unknown, style: ErrorStyle): Response {
  const { code, message, status } = ours(error);
  const headers: Record<string, string> = {};
  if (status === 401) headers["www-authenticate"] = "Bearer";
  if (status === 429 || status === 503) headers["retry-after"] = "1";
  // Some of its body may still be on its way: nothing can follow it on this connection. Deno has no way to cut it.
  if (code === "slow_request") headers["connection"] = "close";
  return Response.json(errorBody(code, message, style), { status, headers });
}

/** An `onError` of Hono: the answer that carries the error, and a line in the log for a failure of the server's own. */
export function onError(
  style: ErrorStyle,
  log: Log,
): (
  error: Error,
  c: { readonly req: { readonly method: string; readonly path: string } },
) => Response {
  return (error, { req }) => {
    const response = toResponse(error, style);
    if (response.status >= 500) {
      const stack = error instanceof SubletError && error.code !== "internal" ? {} : {
        stack: error.stack,
      };
      log.event("http.failed", {
        method: req.method,
        path: req.path,
        status: response.status,
        error: messageOf(error),
        ...stack,
      });
    }
    return response;
  };
}

/** A `notFound` of Hono: the answer to a path that no route has. */
export function onNotFound(
  style: (path: string) => ErrorStyle,
): (c: { readonly req: { readonly method: string; readonly path: string } }) => Response {
  return ({ req: { method, path } }) =>
    toResponse(new SubletError("not_found", `there is no ${method} ${path}`), style(path));
}
