/**
 * @module Access tokens of Google Cloud, from where its own tools look for credentials: a key file, what
 * `gcloud auth application-default login` left, the machine's metadata service.
 *
 * Source: https://google.aip.dev/auth, and OAuth 2.0 (RFC 6749, RFC 7523).
 */

import { Buffer } from "node:buffer";
import { createSign } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";
import { type Clock, type Env, messageOf, SubletError } from "../home/mod.ts";
import type { HttpRequest } from "../net/mod.ts";
import { excerpt, type Hosts, persist, textOf, Transient } from "./objects_calls.ts";
import { userHome } from "./user_home.ts";

const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write";
const TOKEN_URL = "https://oauth2.googleapis.com/token";

/** So long before it expires, a token is asked for anew, in milliseconds. */
const EARLY_MS = 4 * 60 * 1000;

/** Milliseconds within which the metadata service answers, if there is one. */
const NEAR_MS = 3_000;

const httpsUrl = z.string().refine(
  (url) => URL.canParse(url) && /^https?:/.test(url),
  "must be a URL",
);

const serviceAccount = z.object({
  type: z.literal("service_account"),
  client_email: z.string().min(1),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
  token_uri: httpsUrl.default(TOKEN_URL),
});

const authorizedUser = z.object({
  type: z.literal("authorized_user"),
  client_id: z.string().min(1),
  client_secret: z.string().min(1),
  refresh_token: z.string().min(1),
  token_uri: httpsUrl.default(TOKEN_URL),
});

const credentials = z.discriminatedUnion("type", [serviceAccount, authorizedUser]);

const tokenAnswer = z.object({ access_token: z.string().min(1), expires_in: z.number() });

/** What sources of tokens need. */
export interface TokenContext {
  /** A key file that is used instead of what this machine has. */
  readonly file: string | undefined;
  readonly env: Env;
  readonly hosts: Hosts;
  readonly clock: Clock;
}

interface Token {
  readonly text: string;
  /** Unix ms. */
  readonly expiresAt: number;
}

/** The tokens of this machine: asked for when one is first needed, and again before it expires. */
export class GcsTokens {
  readonly #context: TokenContext;
  #token: Token | null = null;
  #asking: Promise<Token> | null = null;

  constructor(context: TokenContext) {
    this.#context = context;
  }

  /** Throws `config` when there are no credentials, or they are refused. */
  async token(): Promise<string> {
    const { clock } = this.#context;
    if (this.#token !== null && clock.now() < this.#token.expiresAt - EARLY_MS) {
      return this.#token.text;
    }
    this.#asking ??= this.#ask().finally(() => this.#asking = null);
    try {
      this.#token = await this.#asking;
    } catch (error) {
      // The one at hand is good for some minutes, and the source may be back by then.
      if (this.#token === null || clock.now() > this.#token.expiresAt) throw error;
    }
    return this.#token.text;
  }

  /** `token` was refused: find out whether there is another one. */
  async renew(token: string): Promise<boolean> {
    if (this.#token?.text === token) this.#token = null;
    return await this.token() !== token;
  }

  async #ask(): Promise<Token> {
    const { file, env } = this.#context;
    const named = file ?? (env.GOOGLE_APPLICATION_CREDENTIALS || undefined);
    const found = await readCredentials(named ?? wellKnownFile(env), named !== undefined);
    if (found === null) return await this.#machineToken();
    const form = found.type === "service_account" ? assertion(found, this.#context.clock.now()) : {
      grant_type: "refresh_token",
      client_id: found.client_id,
      client_secret: found.client_secret,
      refresh_token: found.refresh_token,
    };
    return await this.#take("the token of the GCS credentials", new URL(found.token_uri), {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new TextEncoder().encode(new URLSearchParams(form).toString()),
    });
  }

  async #machineToken(): Promise<Token> {
    const { env, hosts } = this.#context;
    const base = `http://${env.GCE_METADATA_HOST || "metadata.google.internal"}`;
    const headers = { "metadata-flavor": "Google" };
    try {
      // Once: on other machines nobody answers, and there is no reason to wait for that.
      const answer = await hosts.send(new URL("/", base), {
        method: "GET",
        headers,
        timeoutMs: NEAR_MS,
      });
      await answer.discard();
    } catch (error) {
      throw new SubletError(
        "config",
        "there are no credentials of Google Cloud: set plugins.cas.credentials_file, or GOOGLE_APPLICATION_CREDENTIALS, " +
          "to a service account's key file, or run `gcloud auth application-default login`",
        { cause: error },
      );
    }
    const url = new URL("/computeMetadata/v1/instance/service-accounts/default/token", base);
    return await this.#take("the token of this machine's service account", url, {
      method: "GET",
      headers,
    });
  }

  async #take(what: string, url: URL, request: Omit<HttpRequest, "path">): Promise<Token> {
    const { hosts, clock } = this.#context;
    return await persist(what, clock, undefined, async () => {
      const sent = clock.now();
      const answer = await hosts.send(url, request);
      const text = await textOf(answer);
      const { status } = answer;
      if (status >= 500 || status === 429) {
        throw new Transient(
          new SubletError("unavailable", `${what}: ${url.host} answered ${status}`),
        );
      }
      const found = tokenAnswer.safeParse(parseJson(text));
      if (status !== 200 || !found.success) throw refusedToken(what, url, status, text);
      return { text: found.data.access_token, expiresAt: sent + found.data.expires_in * 1000 };
    });
  }
}

const refusalBody = z.object({ error: z.string(), error_description: z.string().default("") });

/** Only what the answer says in its fields for that is shown: the rest may hold secrets. */
function refusedToken(what: string, url: URL, status: number, text: string): SubletError {
  const said = refusalBody.safeParse(parseJson(text));
  const why = said.success
    ? ` (${excerpt(`${said.data.error}: ${said.data.error_description}`)})`
    : "";
  return new SubletError(
    "config",
    `${what}: ${url.host} answered ${status}${why}: check that the key was not deleted, and this machine's clock`,
  );
}

function parseJson(text: string): unknown {
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

/** The credentials in the file at `path`. Null: there is none, and it need not be there. */
async function readCredentials(
  path: string,
  required: boolean,
): Promise<z.output<typeof credentials> | null> {
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
    `${path}: must be the JSON key of a service account, or what \`gcloud auth application-default login\` wrote`,
  );
}

/** The form with which the account of `key` asks for a token. */
function assertion(key: z.output<typeof serviceAccount>, now: number): Record<string, string> {
  const iat = Math.floor(now / 1000);
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const head = part({
    alg: "RS256",
    typ: "JWT",
    ...(key.private_key_id === undefined ? {} : { kid: key.private_key_id }),
  });
  const claims = part({
    iss: key.client_email,
    scope: SCOPE,
    aud: key.token_uri,
    iat,
    exp: iat + 3600,
  });
  let signature: string;
  try {
    signature = createSign("RSA-SHA256").update(`${head}.${claims}`).sign(
      key.private_key,
      "base64url",
    );
  } catch (error) {
    throw new SubletError("config", "the private_key of the GCS credentials is no RSA key in PEM", {
      cause: error,
    });
  }
  return {
    grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
    assertion: `${head}.${claims}.${signature}`,
  };
}
