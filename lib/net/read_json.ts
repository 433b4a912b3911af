/** @module Reading the JSON body of a request, bounded and checked. */

import type * as z from "zod";
import { messageOf, SubletError } from "../home/mod.ts";

/** Mistakes of a body that its refusal names. */
const MAX_NAMED = 8;
/** How long a whole body may take. */
const BODY_SECONDS = 30;

/**
 * The JSON body of `request`, as `schema` reads it. Throws `too_large` (413) beyond `maxBytes`, `invalid_request`
 * (400) for what is no JSON, `slow_request` (408) for a body that takes longer than `seconds`, and `invalid_body` (422),
 * which names the fields, for JSON of another shape.
 */
export async function readJson<T>(
  request: Request,
  schema: z.ZodType<T>,
  maxBytes: number,
  seconds = BODY_SECONDS,
): Promise<T> {
  const text = await readText(request, maxBytes, seconds);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new SubletError("invalid_request", `the body is no JSON: ${messageOf(error)}`);
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw new SubletError("invalid_body", `the body is refused: ${issueText(parsed.error)}`);
}

/** What is wrong with a body, by field, on one line. */
export function issueText(error: z.ZodError): string {
  const texts = error.issues.slice(0, MAX_NAMED).map(({ path, message }) =>
    `${path.length === 0 ? "body" : path.join(".").slice(0, 200)}: ${message}`
  );
  const more = error.issues.length - texts.length;
  return texts.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

/** The whole body, or `slow_request` once `seconds` have passed: a client that sends half of one must hold nothing. */
async function readText(request: Request, maxBytes: number, seconds: number): Promise<string> {
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > maxBytes) throw tooLarge(maxBytes);
  // A stream holds 64 KiB for each request that waits, so it is asked for only where the length is unknown.
  if (declared === null) {
    return await inTime((late) => boundedText(request.body, maxBytes, late), seconds);
  }
  const text = request.text();
  // Most bodies came with their head. A timer would cost them more than all the rest of reading them.
  return await isSettledSoon(text) ? await text : await inTime(() => text, seconds);
}

/** Microtasks until a body that is there is given: 2 or 4 with Deno 2.6 and 2.9, and some more for other versions. */
const SOON = 12;

/** Whether `promise` settles without anything else happening first. */
async function isSettledSoon(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const settle = () => settled = true;
  promise.then(settle, settle);
  for (let turn = 0; turn < SOON && !settled; turn++) await null;
  return settled;
}

/** What `read` gives. It is told of a promise that rejects with `slow_request` once `seconds` have passed. */
async function inTime<T>(
  read: (late: Promise<never>) => Promise<T>,
  seconds: number,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(slow(seconds)), seconds * 1000);
  });
  try {
    return await Promise.race([read(late), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A body of unknown length. */
async function boundedText(
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
  late: Promise<never>,
): Promise<string> {
  if (body === null) return "";
  const reader = body.getReader();
  late.catch(() => reader.cancel().catch(() => {}));
  const decoder = new TextDecoder();
  let length = 0;
  let text = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    length += value.length;
    if (length > maxBytes) throw tooLarge(maxBytes);
    text += decoder.decode(value, { stream: true });
  }
}

function slow(seconds: number): SubletError {
  return new SubletError(
    "slow_request",
    `the body did not arrive within ${seconds} s: send it again`,
  );
}

function tooLarge(maxBytes: number): SubletError {
  return new SubletError("too_large", `the body is longer than ${maxBytes} bytes`);
}
