/** @module Why no answer came, told apart: each has another cure. */

import { messageOf, SubletError } from "../home/mod.ts";
import type { Transport } from "./transport.ts";

const BY_CODE: Readonly<Record<string, string>> = {
  ECONNREFUSED:
    "nothing listens there (connection refused): check the port, and that the server runs",
  ENOENT: "there is no such socket: start the server with `sublet serve`",
  EACCES: "this user may not open it",
  ENOTFOUND: "its name is not known (DNS): check how it is spelled",
  EAI_AGAIN: "its name cannot be looked up just now (DNS)",
  ECONNRESET: "the connection was closed before an answer came",
  EPIPE: "the connection was closed before an answer came",
  ETIMEDOUT: "the connection timed out",
  EHOSTUNREACH: "there is no way to that host",
  ENETUNREACH: "there is no way to that network",
  UND_ERR_CONNECT_TIMEOUT: "no connection came about within 10 s",
  UND_ERR_SOCKET: "the connection was closed before an answer came",
};

const ROOTS =
  "its certificate is signed by an authority that this machine does not know: set SSL_CERT_FILE to a PEM file with that authority's certificate";
const EXPIRED = "its certificate has expired, or this machine's clock is wrong";
const NOT_YET = "its certificate is not valid yet, or this machine's clock is wrong";
const WRONG_NAME = "its certificate is for another host name: dial the name that it has";

const TLS_CODES: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ROOTS,
  UNABLE_TO_GET_ISSUER_CERT: ROOTS,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ROOTS,
  SELF_SIGNED_CERT_IN_CHAIN: ROOTS,
  DEPTH_ZERO_SELF_SIGNED_CERT: ROOTS,
  CERT_HAS_EXPIRED: EXPIRED,
  CERT_NOT_YET_VALID: NOT_YET,
  ERR_TLS_CERT_ALTNAME_INVALID: WRONG_NAME,
};

/** The words of errors that have no code of their own: of the parser of HTTP, and of Deno's TLS. */
const TEXTS: readonly (readonly [RegExp, string])[] = [
  [/HTTP\/1\.1 protocol/, "what answers is no HTTP server: is it https instead of http?"],
  [/UnknownIssuer|unknown issuer|CaUsedAsEndEntity|BadSignature/i, ROOTS],
  [/NotValidYet|not valid yet/i, NOT_YET],
  [/expired/i, EXPIRED],
  [/NotValidForName|not valid for name|not valid for any names/i, WRONG_NAME],
  [
    /InvalidContentType|corrupt message/i,
    "what answers does not speak TLS: is it http instead of https?",
  ],
];

/** `error`, on the way to an answer of `transport`, as `unreachable` with its cause. */
export async function unreachable(transport: Transport, error: unknown): Promise<SubletError> {
  if (error instanceof SubletError) return error;
  const why = known(error) ?? await probeTls(transport) ?? messageOf(error);
  return new SubletError("unreachable", `${transport.url} does not answer: ${why}`, {
    cause: error,
  });
}

/** Codes of a connection that never opened, so that nothing was sent over it. */
const UNOPENED: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOENT",
  "EACCES",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  ...Object.keys(TLS_CODES),
]);

/** Whether `error` says that its request never left, so that the other side did nothing. */
export function neverLeft(error: unknown): boolean {
  return error instanceof SubletError && error.code === "unreachable" &&
    UNOPENED.has(codeOf(error.cause));
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

function known(error: unknown): string | null {
  const code = codeOf(error);
  return TLS_CODES[code] ?? BY_CODE[code] ?? textOf(messageOf(error));
}

function textOf(message: string): string | null {
  return TEXTS.find(([pattern]) => pattern.test(message))?.[1] ?? null;
}

/** Ask TLS itself what it minds, where the HTTP client's error does not say. */
async function probeTls({ tls }: Transport): Promise<string | null> {
  if (tls === null) return null;
  try {
    const connection = await Deno.connectTls({
      hostname: tls.host,
      port: tls.port,
      ...(tls.ca === undefined ? {} : { caCerts: [tls.ca] }),
    });
    try {
      await connection.handshake();
      return null;
    } finally {
      connection.close();
    }
  } catch (error) {
    return textOf(messageOf(error)) ?? messageOf(error);
  }
}
