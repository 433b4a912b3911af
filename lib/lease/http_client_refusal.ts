/** @module What an answer that is no success means to a worker: a typed error, explicit or not. */

import { type ErrorCode, ERRORS, SubletError } from "../home/mod.ts";
import { Superseded } from "./superseded.ts";
import { refusalBody } from "./wire.ts";

/** Longest text of the server's that goes into a message. */
const MAX_DETAIL = 2_000;

/**
 * A 3xx or 4xx that neither server of this protocol would send: a proxy's own page, or a route that is gone for a
 * moment. It says nothing about the worker or its lease, so it fails that call alone, and the call may be tried again.
 */
export class UnexplainedStatus extends SubletError {
  constructor(readonly answered: number, message: string) {
    super("invalid_request", message);
  }
}

/** An answer, as far as a refusal goes. */
export interface Refusal {
  /** The call, such as `acquire`. */
  readonly call: string;
  readonly status: number;
  readonly headers: Headers;
  /** The body's text, cut if it was long. */
  readonly body: string;
  /** Where it came from, for the message. */
  readonly url: string;
}

/** The codes that a bare status stands for when its body explains itself but names no code of ours (piloop's 401, 403, 422). */
const BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  400: "invalid_request",
  403: "permission_denied",
  412: "other_cas",
  413: "too_large",
  422: "invalid_body",
  426: "protocol",
};

/** The error that `refusal` raises at its caller. */
export function refusalError(refusal: Refusal): SubletError {
  const { call, status, headers, url } = refusal;
  const body = explained(refusal.body);
  const said = (body?.detail ?? refusal.body.trim()).slice(0, MAX_DETAIL);
  const message = `${url} refused ${call} (${status})${said === "" ? "" : `: ${said}`}`;
  if (status >= 500 || status === 408) {
    return new SubletError("unavailable", `${url} could not answer ${call} (${status}): ${said}`);
  }
  if (status === 429) return new SubletError("busy", `${url} is busy (429 to ${call}): ${said}`);
  const code = body?.error ?? null;
  if (code !== null && isCode(code) && ERRORS[code].status === status) {
    if (code === "superseded") return new Superseded(message, secondsOf(headers));
    return new SubletError(code, message);
  }
  // Basic and the like are some proxy's; only a bearer's challenge is about this worker's token.
  if (status === 401 && /^\s*bearer\b/i.test(headers.get("www-authenticate") ?? "")) {
    return new SubletError("unauthenticated", message);
  }
  if (body !== null) {
    if (status === 404 && call === "register") {
      return new SubletError("protocol", `${message}. It takes no workers of this protocol`);
    }
    const meant = BY_STATUS[status];
    if (meant !== undefined) return new SubletError(meant, message);
    if (status === 409) return new SubletError("conflict", message);
  }
  return new UnexplainedStatus(
    status,
    `${message}. No server of this protocol answers so: is a proxy in between, or is this the store's address?`,
  );
}

/** The whole seconds of `Retry-After`, or null. */
function secondsOf(headers: Headers): number | null {
  const text = headers.get("retry-after") ?? "";
  return /^\d{1,5}$/.test(text) ? Number(text) : null;
}

function isCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERRORS, text);
}

/** A refusal's JSON body: our `error`, or a framework's `detail`; null for anything else, such as a page. */
function explained(text: string): { error: string | null; detail: string } | null {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return null;
  }
  const parsed = refusalBody.safeParse(json);
  if (!parsed.success) return null;
  const { error, detail } = parsed.data;
  if (error === undefined && detail === undefined) return null;
  const words = typeof detail === "string" ? detail : JSON.stringify(detail ?? error);
  return { error: error ?? null, detail: words };
}
