/** @module The calls of a worker over HTTP: `POST /v1/executor/<call>` of worker protocol 7. */

import type * as z from "zod";
import { messageOf, SubletError } from "../home/mod.ts";
import type { JobHandle, Report, SavedPart } from "../job/mod.ts";
import type { Cid } from "../cas/mod.ts";
import type { HttpClient, HttpResponse } from "../net/mod.ts";
import type { CommandResult, LeaseClient, Registration, WorkerInfo } from "./client.ts";
import { refusalError } from "./http_client_refusal.ts";
import {
  type Answer,
  answers,
  type Grant,
  HOST_FAULT_HEADER,
  type HostSample,
  INCARNATION_HEADER,
  MAX_HAVE,
  MAX_POLL_SECONDS,
  type Message,
  type NoLease,
  ONCE_HEADER,
  PROTOCOL,
  SUCCEEDS_HEADER,
} from "./wire.ts";

/** Milliseconds until an answer's headers must be there, beyond a long-poll's own wait. */
const ANSWER_MS = 30_000;
/** How long a command of an agent may run on the server, seconds. */
const COMMAND_SECONDS = 120;
/** More than this of an answer is not read. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
/** More than this of a refusal is not read. */
const MAX_REFUSAL_BYTES = 64 * 1024;

interface Options {
  readonly signal?: AbortSignal | undefined;
  /** How long the server may take beyond an answer's usual time, seconds: a long-poll's wait. */
  readonly wait?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** {@linkcode LeaseClient} over `http`, one try a call. It works with a sublet server and with piloop 0.3.1's. */
export class HttpLeaseClient implements LeaseClient {
  readonly #http: HttpClient;
  #incarnation: string | null = null;

  constructor(http: HttpClient) {
    this.#http = http;
  }

  async register(info: WorkerInfo, signal?: AbortSignal): Promise<Registration> {
    this.#incarnation = info.incarnation;
    const headers: Record<string, string> = {};
    if (info.succeeds !== null) headers[SUCCEEDS_HEADER] = info.succeeds;
    if (info.once === true) headers[ONCE_HEADER] = "1";
    const body = {
      protocol: PROTOCOL,
      version: info.version,
      pool: info.pool,
      runners: info.runners,
      sample: info.sample,
      cas_probe: info.casProbe,
      labels: info.labels,
    };
    return await this.#content("register", body, answers.register, { signal, headers });
  }

  async acquire(
    requestId: string,
    sample: HostSample,
    signal?: AbortSignal,
  ): Promise<Grant | NoLease> {
    const body = { request_id: requestId, sample };
    return await this.#content("acquire", body, answers.acquire, { signal });
  }

  async started(
    lease: number,
    handle: JobHandle,
    sessionId: string | null,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#done("started", { lease, handle, session_id: sessionId }, { signal });
  }

  async heartbeat(
    leases: ReadonlyMap<number, string | null>,
    sample: HostSample,
    signal?: AbortSignal,
  ): Promise<Map<number, Answer>> {
    const body = { leases: Object.fromEntries(leases), sample };
    const found = await this.#content("heartbeat", body, answers.heartbeat, { signal });
    return new Map(Object.entries(found).map(([lease, answer]) => [Number(lease), answer]));
  }

  async report(
    lease: number,
    requestId: string,
    report: Report,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#content("report", { lease, request_id: requestId, report }, answers.report, {
      signal,
    });
  }

  async lost(
    lease: number,
    reason: string,
    signal?: AbortSignal,
    hostFault = false,
  ): Promise<void> {
    const headers: Record<string, string> = hostFault ? { [HOST_FAULT_HEADER]: "1" } : {};
    await this.#done("lost", { lease, reason }, { signal, headers });
  }

  async leave(signal?: AbortSignal): Promise<void> {
    await this.#done("leave", {}, { signal });
  }

  async messages(after: number, wait: number, signal?: AbortSignal): Promise<readonly Message[]> {
    const body = { after, wait: Math.min(wait, MAX_POLL_SECONDS) };
    const options = { signal, wait: body.wait };
    return await this.#polled("messages", body, answers.messages, options) ?? [];
  }

  async queued(message: number, error: string | null, signal?: AbortSignal): Promise<void> {
    await this.#done("queued", { message, error }, { signal });
  }

  async secrets(lease: number, signal?: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const found = await this.#content("secrets", { lease }, answers.secrets, { signal });
    return new Map(Object.entries(found));
  }

  async cli(
    lease: number,
    argv: readonly string[],
    stdin: string | null,
    signal?: AbortSignal,
  ): Promise<CommandResult> {
    const body = { lease, argv, stdin };
    return await this.#content("cli", body, answers.cli, { signal, wait: COMMAND_SECONDS });
  }

  async saved(part: SavedPart, signal?: AbortSignal): Promise<void> {
    await this.#done("saved", part, { signal });
  }

  async send(
    repo: number,
    revisions: readonly string[],
    have: readonly string[],
    wait: number,
    signal?: AbortSignal,
  ): Promise<Cid[] | null> {
    const body = {
      repo,
      revisions,
      have: have.slice(0, MAX_HAVE),
      wait: Math.min(wait, MAX_POLL_SECONDS),
    };
    return await this.#polled("send", body, answers.send, { signal, wait: body.wait });
  }

  /** A call that always answers content. */
  async #content<T extends z.ZodType>(
    call: string,
    body: unknown,
    shape: T,
    options: Options,
  ): Promise<z.output<T>> {
    const found = await this.#polled(call, body, shape, options);
    if (found === null) throw this.#strange(call, "204 where content was due");
    return found;
  }

  /** A call that answers content, or 204: null. */
  async #polled<T extends z.ZodType>(
    call: string,
    body: unknown,
    shape: T,
    options: Options,
  ): Promise<z.output<T> | null> {
    const bytes = await this.#post(call, body, options);
    if (bytes === null) return null;
    let json: unknown;
    try {
      json = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    } catch (cause) {
      throw this.#strange(call, messageOf(cause), cause);
    }
    const parsed = shape.safeParse(json);
    if (!parsed.success) {
      const first = parsed.error.issues[0];
      throw this.#strange(
        call,
        `${first?.path.join(".") ?? ""}: ${first?.message ?? "not of its shape"}`,
      );
    }
    return parsed.data;
  }

  /** A call that answers 204 alone. */
  async #done(call: string, body: unknown, options: Options): Promise<void> {
    const bytes = await this.#post(call, body, options);
    if (bytes !== null) throw this.#strange(call, "content where 204 was due");
  }

  /** One try. The bytes of a 200, null for a 204, or the typed error of anything else. */
  async #post(call: string, body: unknown, options: Options): Promise<Uint8Array | null> {
    const response = await this.#http.request({
      method: "POST",
      path: `/v1/executor/${call}`,
      headers: {
        "content-type": "application/json",
        ...(this.#incarnation === null ? {} : { [INCARNATION_HEADER]: this.#incarnation }),
        ...options.headers,
      },
      body: new TextEncoder().encode(JSON.stringify(body)),
      timeoutMs: ANSWER_MS + (options.wait ?? 0) * 1000,
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    if (response.status === 204) {
      await response.discard();
      return null;
    }
    if (response.status === 200) {
      const bytes = await read(response, MAX_ANSWER_BYTES);
      if (bytes.length > MAX_ANSWER_BYTES) throw this.#strange(call, "it is longer than 16 MiB");
      return bytes;
    }
    if (response.status < 300) {
      await response.discard();
      throw this.#strange(call, `status ${response.status}`);
    }
    const text = new TextDecoder().decode(await read(response, MAX_REFUSAL_BYTES));
    throw refusalError({
      call,
      status: response.status,
      headers: response.headers,
      body: text,
      url: this.#http.url,
    });
  }

  /** A success that is not of this protocol: a captive portal, a cut answer. The call may be tried again. */
  #strange(call: string, what: string, cause?: unknown): SubletError {
    return new SubletError(
      "unavailable",
      `${this.#http.url} answered ${call} with something that is not of worker protocol ${PROTOCOL} (${what}): is it a sublet server?`,
      cause === undefined ? {} : { cause },
    );
  }
}

/** The body, of which at most a little more than `max` bytes are read. */
async function read(response: HttpResponse, max: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of response.stream()) {
      chunks.push(chunk);
      length += chunk.length;
      if (length > max) break;
    }
  } catch (cause) {
    throw new SubletError("unreachable", `the answer broke off: ${messageOf(cause)}`, { cause });
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
