/**
 * @module Files with credentials of Google Cloud, and what is asked for a token with each.
 *
 * Source: https://google.aip.dev/auth/4110 and those after it, OAuth 2.0 (RFC 6749, RFC 7523, RFC 8693).
 */

import { Buffer } from "node:buffer";
import { createSign } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";
import { type Env, messageOf, SubletError } from "../home/mod.ts";
import { fileError } from "./files.ts";
import { userHome } from "./user_home.ts";

/** What tokens are for. */
export const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write";
const TOKEN_URL = "https://oauth2.googleapis.com/token";

const text = z.string().min(1);
const url = text.refine((url) => URL.canParse(url) && /^https?:/.test(url));

const serviceAccount = z.object({
  type: z.literal("service_account"),
  client_email: text,
  private_key: text,
  private_key_id: z.string().optional(),
  token_uri: url.default(TOKEN_URL),
});

const authorizedUser = z.object({
  type: z.literal("authorized_user"),
  client_id: text,
  client_secret: text,
  refresh_token: text,
  token_uri: url.default(TOKEN_URL),
});

const source = z.object({
  file: text.optional(),
  url: url.optional(),
  headers: z.record(z.string(), z.string()).default({}),
  format: z.object({ type: z.string(), subject_token_field_name: text.optional() }).optional(),
}).refine(({ file, url }) => file !== undefined || url !== undefined);

const externalAccount = z.object({
  type: z.literal("external_account"),
  audience: text,
  subject_token_type: text,
  token_url: url,
  service_account_impersonation_url: url.optional(),
  credential_source: source,
});

const impersonated = z.object({
  type: z.literal("impersonated_service_account"),
  service_account_impersonation_url: url,
  source_credentials: z.discriminatedUnion("type", [
    serviceAccount,
    authorizedUser,
    externalAccount,
  ]),
});

const credentials = z.discriminatedUnion("type", [
  serviceAccount,
  authorizedUser,
  externalAccount,
  impersonated,
]);

/** What a file with credentials holds. */
export type Credentials = z.output<typeof credentials>;
/** Credentials of another identity service (a CI, another cloud). */
export type ExternalAccount = z.output<typeof externalAccount>;

/** `text` as JSON; null when it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Where `gcloud auth application-default login` leaves credentials. */
export function wellKnownFile(env: Env): string {
  const home = userHome(env);
  const directory = env.CLOUDSDK_CONFIG ||
    (Deno.build.os === "windows"
      ? join(env.APPDATA ?? home, "gcloud")
      : join(home, ".config/gcloud"));
  return join(directory, "application_default_credentials.json");
}

/** The credentials in the file at `path`. Null: there is none, and it need not be there. Throws `config`. */
export async function readCredentials(
  path: string,
  required: boolean,
): Promise<Credentials | null> {
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (error) {
    if (!required && error instanceof Deno.errors.NotFound) return null;
    throw new SubletError("config", `${path}: cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
  const found = credentials.safeParse(parseJson(text));
  if (found.success) return found.data;
  // Not what is in it: that is a secret.
  throw new SubletError(
    "config",
    `${path}: must be the JSON key of a service account, what \`gcloud auth application-default login\` wrote, or the ` +
      "configuration of a workload identity whose token is in a file or at a URL",
  );
}

/** The form with which the account of `key` asks for a token, at `now` (Unix ms). Throws `config`. */
export function assertion(
  key: z.output<typeof serviceAccount>,
  now: number,
): Record<string, string> {
  const iat = Math.floor(now / 1000);
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const kid = key.private_key_id === undefined ? {} : { kid: key.private_key_id };
  const head = part({ alg: "RS256", typ: "JWT", ...kid });
  const claims = { iss: key.client_email, scope: SCOPE, aud: key.token_uri, iat, exp: iat + 3600 };
  const signed = `${head}.${part(claims)}`;
  let signature: string;
  try {
    signature = createSign("RSA-SHA256").update(signed).sign(key.private_key, "base64url");
  } catch (error) {
    throw new SubletError(
      "config",
      "the private_key of the GCS credentials is no RSA key in PEM",
      { cause: error },
    );
  }
  return {
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: `${signed}.${signature}`,
  };
}

/** The form with which `subject`, a token of another service, is exchanged. */
export function exchangeForm(account: ExternalAccount, subject: string): Record<string, string> {
  return {
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    audience: account.audience,
    // To act as an account takes more than the use of storage.
    scope: account.service_account_impersonation_url === undefined
      ? SCOPE
      : "https://www.googleapis.com/auth/cloud-platform",
    requested_token_type: "urn:ietf:params:oauth:token-type:access_token",
    subject_token: subject,
    subject_token_type: account.subject_token_type,
  };
}

/** What is in the file of a subject token. */
export async function readSubject(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    throw fileError(
      error,
      `cannot read the subject token of the GCS credentials, ${path}`,
      "unavailable",
    );
  }
}

/** The token in `text`, as its source says how it is in there. Throws `config`, without the text. */
export function subjectIn(
  what: string,
  { format }: ExternalAccount["credential_source"],
  text: string,
): string {
  if (format?.type !== "json") return text.trim();
  const json = parseJson(text) as Record<string, unknown> | null;
  const token = json?.[format.subject_token_field_name ?? ""];
  if (typeof token === "string") return token;
  throw new SubletError(
    "config",
    `${what}: its source holds no ${format.subject_token_field_name}`,
  );
}
