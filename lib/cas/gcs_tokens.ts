/**
 * @module Access tokens of Google Cloud, from where its own tools look for credentials: a key file, what
 * `gcloud auth application-default login` left, the machine's metadata service.
 *
 * Source: https://google.aip.dev/auth, and OAuth 2.0 (RFC 6749, RFC 7523).
 */

import * as z from "zod";
import { type Clock, type Env, SubletError } from "../home/mod.ts";
import type { HttpRequest } from "../net/mod.ts";
import {
  assertion,
  type Credentials,
  exchangeForm,
  type ExternalAccount,
  parseJson,
  readCredentials,
  readSubject,
  SCOPE,
  subjectIn,
  wellKnownFile,
} from "./gcs_credentials.ts";
import { excerpt, type Hosts, persist, textOf, Transient } from "./objects_calls.ts";

/** So long before it expires, a token is asked for anew, in milliseconds. */
const EARLY_MS = 4 * 60 * 1000;

/** Milliseconds within which the metadata service answers, if there is one. */
const NEAR_MS = 3_000;

const tokenAnswer = z.object({ access_token: z.string().min(1), expires_in: z.number() });
const accountAnswer = z.object({ accessToken: z.string().min(1), expireTime: z.string() });

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
    return found === null ? await this.#machineToken() : await this.#tokenOf(found);
  }

  async #tokenOf(found: Credentials): Promise<Token> {
    switch (found.type) {
      case "service_account":
        return await this.#exchange(found.token_uri, assertion(found, this.#context.clock.now()));
      case "authorized_user":
        return await this.#exchange(found.token_uri, {
          grant_type: "refresh_token",
          client_id: found.client_id,
          client_secret: found.client_secret,
          refresh_token: found.refresh_token,
        });
      case "impersonated_service_account":
        return await this.#asAccount(
          found.service_account_impersonation_url,
          await this.#tokenOf(found.source_credentials),
        );
      case "external_account": {
        const subject = await this.#subjectToken(found);
        const token = await this.#exchange(found.token_url, exchangeForm(found, subject));
        const account = found.service_account_impersonation_url;
        return account === undefined ? token : await this.#asAccount(account, token);
      }
    }
  }

  /** What another identity service says of this machine. */
  async #subjectToken({ credential_source: source }: ExternalAccount): Promise<string> {
    const what = "the subject token of the GCS credentials";
    if (source.url === undefined) {
      return subjectIn(what, source, await readSubject(source.file ?? ""));
    }
    const url = new URL(source.url);
    return await this.#call(
      what,
      url,
      { method: "GET", headers: source.headers },
      (text, status) => {
        if (status !== 200) throw refusedToken(what, url, status, "");
        return subjectIn(what, source, text);
      },
    );
  }

  /** The token of the account at `url`, which `token` may act as. */
  async #asAccount(url: string, token: Token): Promise<Token> {
    const what = "the token of the service account that the GCS credentials act as";
    const request = {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token.text}` },
      body: new TextEncoder().encode(JSON.stringify({ scope: [SCOPE] })),
    };
    return await this.#call(what, new URL(url), request, (text, status) => {
      const found = accountAnswer.safeParse(parseJson(text));
      if (status !== 200 || !found.success) throw refusedToken(what, new URL(url), status, text);
      const expiresAt = Date.parse(found.data.expireTime);
      return { text: found.data.accessToken, expiresAt: expiresAt || token.expiresAt };
    });
  }

  async #exchange(url: string, form: Record<string, string>): Promise<Token> {
    return await this.#take("the token of the GCS credentials", new URL(url), {
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
    const sent = this.#context.clock.now();
    return await this.#call(what, url, request, (text, status) => {
      const found = tokenAnswer.safeParse(parseJson(text));
      if (status !== 200 || !found.success) throw refusedToken(what, url, status, text);
      return { text: found.data.access_token, expiresAt: sent + found.data.expires_in * 1000 };
    });
  }

  async #call<T>(
    what: string,
    url: URL,
    request: Omit<HttpRequest, "path">,
    read: (text: string, status: number) => T,
  ): Promise<T> {
    const { hosts, clock } = this.#context;
    return await persist(what, clock, undefined, async () => {
      const answer = await hosts.send(url, request);
      const text = await textOf(answer);
      const { status } = answer;
      if (status < 500 && status !== 429) return read(text, status);
      throw new Transient(
        new SubletError("unavailable", `${what}: ${url.host} answered ${status}`),
      );
    });
  }
}

const refusalBody = z.union([
  z.object({ error: z.string(), error_description: z.string().default("") }),
  z.object({ error: z.object({ status: z.string().default(""), message: z.string().default("") }) })
    .transform(({ error }) => ({ error: error.status, error_description: error.message })),
]);

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
