/** @module Reading a worker's request: who it is, and a body within bounds and of the right shape; and refusals. */

import * as z from "zod";
import { isError, SubletError } from "../home/mod.ts";
import { type Caller, checkAccess, issueText, readJson, toResponse } from "../net/mod.ts";
import type { WorkerCaller } from "./member.ts";
import { Superseded } from "./superseded.ts";
import { INCARNATION_HEADER } from "./wire.ts";

/** A request to a lease route. */
export interface Call {
  /** What is called: the last part of the path. */
  readonly name: string;
  readonly request: Request;
  readonly caller: Caller;
  /** Whether it came over the home's Unix socket. */
  readonly unix: boolean;
}

/** The name of the worker inside the server, which no token of another machine may have. */
export const SERVE = "serve";

/** Bytes of a request's body: a report's may be large, others are small. */
const MAX_REPORT = 16 * 1024 * 1024;
const MAX_BODY = 1024 * 1024;
/** Longest id of a process. */
const MAX_INCARNATION = 100;

/**
 * The worker that calls. Throws `permission_denied` for another access, and for `reserved` calls `reserved` when
 * another machine uses the name of the server's own worker.
 */
export function callerOf({ request, caller, unix }: Call, reserved: boolean): WorkerCaller {
  checkAccess(caller, "worker");
  if (reserved && caller.name === SERVE && !unix) {
    throw new SubletError(
      "reserved",
      `${SERVE} is the worker inside the server: name the token after the machine that uses it`,
    );
  }
  return {
    name: caller.name,
    pool: caller.pool,
    incarnation: processHeader(request, INCARNATION_HEADER),
    // Only a register says so.
    succeeds: null,
    local: unix,
  };
}

/** The id of a process in the header `name`; null when there is none. Throws `invalid_request` for a long one. */
export function processHeader(request: Request, name: string): string | null {
  const value = request.headers.get(name) ?? "";
  if (value.length > MAX_INCARNATION) {
    throw new SubletError(
      "invalid_request",
      `the header ${name} is longer than ${MAX_INCARNATION}`,
    );
  }
  return value === "" ? null : value;
}

/** The request's body as `schema` reads it. Throws `too_large`, `invalid_request`, `invalid_body`. */
export function readRequest<T>({ name, request }: Call, schema: z.ZodType<T>): Promise<T> {
  return readJson(request, schema, name === "report" ? MAX_REPORT : MAX_BODY);
}

/** The request's body as `schema` reads it, after `first` has seen it in whatever shape it is. */
export async function readRequestAfter<T>(
  request: Request,
  first: (raw: unknown) => void,
  schema: z.ZodType<T>,
): Promise<T> {
  const raw = await readJson(request, z.unknown(), MAX_BODY);
  first(raw);
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  throw new SubletError("invalid_body", `the body is refused: ${issueText(parsed.error)}`);
}

/** The answer that says why a call was refused. Null: it is a fault of the server's own, to be logged. */
export function refusal(error: unknown): Response | null {
  if (!isError(error) || error.code === "internal") return null;
  const response = toResponse(error, "executor");
  if (error instanceof Superseded && error.seconds !== null) {
    response.headers.set("retry-after", String(Math.ceil(error.seconds)));
  }
  return response;
}
