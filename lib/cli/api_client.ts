/** @module The CLI's client of the HTTP API: over the home's Unix socket, or `SUBLET_SERVER` with `SUBLET_TOKEN`. */

import {
  type ErrorCode,
  ERRORS,
  homeDir,
  homePaths,
  isError,
  messageOf,
  SubletError,
} from "../home/mod.ts";
import type { HttpClient } from "../net/mod.ts";

/** Calls of the HTTP API, as JSON. */
export class ApiClient implements Disposable {
  readonly #http: HttpClient;
  readonly #unreachable: (error: unknown) => string;

  private constructor(http: HttpClient, unreachable: (error: unknown) => string) {
    this.#http = http;
    this.#unreachable = unreachable;
  }

  /** The API that this machine's environment names. */
  static async open(env: Record<string, string> = Deno.env.toObject()): Promise<ApiClient> {
    // Loaded when a command calls, so that `--help` and `version` do not wait for it.
    const { openHttpClient, tokenOf } = await import("../net/mod.ts");
    const server = env["SUBLET_SERVER"];
    if (server !== undefined && server !== "") {
      const token = tokenOf(
        env,
        "SUBLET_TOKEN",
        "SUBLET_SERVER is set, but SUBLET_TOKEN is not: make one on the server with `sublet token create NAME --access act`",
      );
      return new ApiClient(
        openHttpClient({ server, token, env }),
        (error) => `${messageOf(error)} (SUBLET_SERVER=${server})`,
      );
    }
    const paths = homePaths(homeDir(env));
    const http = openHttpClient({ server: `unix:${paths.socket}`, env });
    return new ApiClient(
      http,
      () =>
        `the server does not answer: start it with \`sublet serve --detach\` (home ${paths.root})`,
    );
  }

  [Symbol.dispose](): void {
    this.#http[Symbol.dispose]();
  }

  /** One call; the JSON of its answer. A refusal is thrown as the error that the server named. */
  async call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    const bytes = await this.raw(method, path, body, signal);
    return bytes.length === 0 ? null as T : JSON.parse(new TextDecoder().decode(bytes)) as T;
  }

  /** One call; the bytes of its answer. */
  async raw(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    return (await this.answer(method, path, body, signal)).bytes;
  }

  /** One call; the bytes of its answer, and its headers. */
  async answer(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<{ readonly bytes: Uint8Array; readonly headers: Headers }> {
    const response = await this.#request(method, path, body, signal);
    const bytes = await response.bytes();
    const { status, headers } = response;
    if (status >= 200 && status < 300) return { bytes, headers };
    throw refusal(status, new TextDecoder().decode(bytes));
  }

  async #request(method: string, path: string, body: unknown, signal: AbortSignal | undefined) {
    try {
      return await this.#http.request({
        method,
        path,
        timeoutMs: 60_000,
        ...(signal === undefined ? {} : { signal }),
        ...(body === undefined ? {} : {
          headers: { "content-type": "application/json" },
          body: new TextEncoder().encode(JSON.stringify(body)),
        }),
      });
    } catch (error) {
      if (!isError(error, "unreachable")) throw error;
      throw new SubletError("unreachable", this.#unreachable(error), { cause: error });
    }
  }
}

function refusal(status: number, text: string): SubletError {
  let code: ErrorCode = status === 404 ? "not_found" : status >= 500 ? "failed" : "invalid_request";
  let message = text;
  try {
    const body = JSON.parse(text);
    if (typeof body.code === "string" && Object.hasOwn(ERRORS, body.code)) {
      code = body.code as ErrorCode;
    }
    if (typeof body.message === "string") message = body.message;
  } catch {
    message = `the server answered ${status}: ${text.slice(0, 300)}`;
  }
  return new SubletError(code, message);
}
