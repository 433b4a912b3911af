/** @module What S3 refuses, and why. */

import { type ErrorCode, SubletError } from "../home/mod.ts";
import type { HttpResponse } from "../net/mod.ts";
import { retryAfter } from "./http_calls.ts";
import { excerpt, textOf } from "./objects_calls.ts";
import { elementOf } from "./s3_xml.ts";

/** An answer of S3 that is no success. */
export interface S3Refusal {
  readonly status: number;
  /** Such as `NoSuchBucket`. Empty when it does not say (the answer to a HEAD has no body). */
  readonly code: string;
  readonly message: string;
  /** The bucket's region, when it says that. */
  readonly region: string | null;
  /** Its clock, Unix ms; NaN when it does not say. */
  readonly date: number;
  /** Where it wants to be asked. Null: it does not say. */
  readonly location: string | null;
  readonly retryAfterMs: number;
}

/** What `answer` says. Its body is read. */
export async function readRefusal(answer: HttpResponse): Promise<S3Refusal> {
  const { status, headers } = answer;
  const text = await textOf(answer);
  return refusalOf(status, text, headers);
}

/** What an answer with this body says. */
export function refusalOf(status: number, text: string, headers: Headers): S3Refusal {
  const error = text.includes("<Error>") ? text.slice(text.indexOf("<Error>")) : "";
  return {
    status,
    code: elementOf(error, "Code") ?? "",
    message: elementOf(error, "Message") ?? excerpt(text),
    region: headers.get("x-amz-bucket-region") ?? elementOf(error, "Region"),
    date: Date.parse(headers.get("date") ?? ""),
    location: headers.get("location"),
    retryAfterMs: retryAfter(headers),
  };
}

const TRANSIENT = new Set([
  "InternalError",
  "OperationAborted",
  "RequestTimeout",
  "ServiceUnavailable",
  "SlowDown",
  "Throttling",
  "ThrottlingException",
  "RequestLimitExceeded",
  "ConditionalRequestConflict",
  "BadDigest",
]);

/** Whether the same request may succeed later. */
export function isTransient({ status, code }: S3Refusal): boolean {
  return TRANSIENT.has(code) || status === 429 || status === 408 ||
    status >= 500 && status !== 501;
}

const CREDENTIALS =
  "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in ~/.aws that AWS_PROFILE names";

/** What to do about a refusal that will not pass by itself. */
const CURES: Readonly<Record<string, string>> = {
  InvalidAccessKeyId: `the key is not known there: ${CREDENTIALS}`,
  SignatureDoesNotMatch: `the secret key is not the one of that key: ${CREDENTIALS}`,
  InvalidToken: `the session token is not good: ${CREDENTIALS}`,
  InvalidClientTokenId: `the key is not known there: ${CREDENTIALS}`,
  ExpiredToken: "the session token has expired: sign in again, and set the new credentials",
  ExpiredTokenException:
    "the session token has expired: sign in again, and set the new credentials",
  NoSuchBucket: "there is no such bucket: create it, or check plugins.cas.url and AWS_ENDPOINT_URL",
  InvalidBucketName: "no bucket can have that name: check plugins.cas.url",
  AllAccessDisabled: "the bucket is disabled: check plugins.cas.url, and ask who owns it",
  InvalidStorageClass:
    "this server has no such storage class: set plugins.cas.storage_class to one that it has, such as STANDARD",
  RequestTimeTooSkewed: "this machine's clock is wrong: set it",
  AccessDenied:
    "these credentials may not do that. They need s3:GetObject, s3:PutObject, s3:DeleteObject, " +
    "s3:AbortMultipartUpload and, on the bucket, s3:ListBucket (without it S3 answers so for every object that is not there)",
};

/** `refusal`, of `what`, as an error. */
export function refused(what: string, refusal: S3Refusal): SubletError {
  const { status, code, message } = refusal;
  const said = [code, message].filter((part) => part !== "").join(": ");
  const told = `${what}: S3 answered ${status}${said === "" ? "" : ` (${excerpt(said)})`}`;
  const cure = CURES[code] ?? (status === 403 ? CURES.AccessDenied : undefined);
  return new SubletError(codeOf(refusal), cure === undefined ? told : `${told}: ${cure}`);
}

function codeOf(refusal: S3Refusal): ErrorCode {
  if (isTransient(refusal) || refusal.code === "InvalidObjectState") return "unavailable";
  // A person has to change something: here, in the bucket, or in who may use it.
  return "config";
}
