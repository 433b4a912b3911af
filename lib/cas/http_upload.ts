/** @module A large blob on its way to a store's HTTP service, in parts over a few connections: see `http_uploads.ts`. */

import { isError, SubletError } from "../home/mod.ts";
import type { HttpResponse } from "../net/mod.ts";
import type * as z from "zod";
import { type CallRequest, type HttpCalls, Retry } from "./http_calls.ts";
import { uploadState } from "./http_wire.ts";
import type { Spooled } from "./spool.ts";

const PATH = "/v1/cas/uploads";

/** Parts at once. */
const WIDTH = 4;

/** Bytes of a part: what a break of the connection costs at most is a block of the store. */
const PART = 16 * 1024 * 1024;

/** Milliseconds for the answer to a part: after the last, the store hashes and syncs. */
const TIMEOUT_MS = 120_000;

/** Answers of a server that has no such route. */
const LACKING: ReadonlySet<number> = new Set([400, 404, 405, 501]);

type State = z.output<typeof uploadState>;

/** What the parts of one round came to. */
interface Round {
  done: boolean;
  failure: SubletError | null;
  atLeastMs: number;
}

/** Sends large blobs. */
export class PartsClient {
  readonly #calls: HttpCalls;
  /** Whether the server takes parts. Null: not known yet. */
  #taken: boolean | null = null;

  constructor(calls: HttpCalls) {
    this.#calls = calls;
  }

  /** Send `blob`, or only what the server lacks of it. False: the server takes no parts. */
  async send(blob: Spooled, signal?: AbortSignal): Promise<boolean> {
    if (this.#taken === false) return false;
    let retry = new Retry(this.#calls.clock);
    let before = Infinity;
    while (true) {
      const state = await this.#begin(blob, signal, retry);
      if (state === null) return false;
      if (state.complete) return true;
      const left = state.missing.reduce((sum, [from, to]) => sum + to - from, 0);
      // It goes on: the next break has a window of its own.
      if (left < before) retry = new Retry(this.#calls.clock);
      before = left;
      const round = await this.#round(blob, state, signal);
      if (round.done) return true;
      const failure = round.failure ?? new SubletError(
        "unavailable",
        `${this.#calls.client.url} has all parts of blob ${blob.cid}, and does not store it`,
      );
      if (!await retry.next(round.atLeastMs, signal)) throw failure;
    }
  }

  /** The upload, begun or found again; null when the server takes none. */
  async #begin(
    blob: Spooled,
    signal: AbortSignal | undefined,
    retry: Retry,
  ): Promise<State | null> {
    const { cid, length } = blob;
    const question = new TextEncoder().encode(JSON.stringify({ cid, length }));
    const request: CallRequest = {
      method: "POST",
      path: PATH,
      headers: { "content-type": "application/json" },
      timeoutMs: TIMEOUT_MS,
      body: () => question,
      ...(signal === undefined ? {} : { signal }),
    };
    const answer = await this.#calls.call(request, retry);
    if (this.#taken === null && LACKING.has(answer.status)) {
      await answer.discard();
      this.#taken = false;
      return null;
    }
    if (answer.status !== 200 && answer.status !== 201) {
      throw await this.#calls.refused(request, answer);
    }
    this.#taken = true;
    return await this.#read(answer);
  }

  async #read(answer: HttpResponse): Promise<State> {
    try {
      return uploadState.parse(JSON.parse(new TextDecoder().decode(await answer.bytes())));
    } catch (error) {
      if (isError(error, "unreachable")) throw error;
      throw new SubletError(
        "unavailable",
        `${this.#calls.client.url} answered POST ${PATH} with something else than an upload. Is it a store?`,
        { cause: error },
      );
    }
  }

  /** Send what is missing, until all of it is there or a part fails. */
  async #round(blob: Spooled, state: State, signal: AbortSignal | undefined): Promise<Round> {
    const round: Round = { done: false, failure: null, atLeastMs: 0 };
    const queue = partsOf(state, blob.length);
    const send = async () => {
      for (let part = queue.shift(); part !== undefined; part = queue.shift()) {
        if (round.failure !== null) return;
        await this.#part(blob, state.id ?? "", part, round, signal);
      }
    };
    const results = await Promise.allSettled(Array.from({ length: WIDTH }, send));
    for (const result of results) if (result.status === "rejected") throw result.reason;
    return round;
  }

  async #part(
    blob: Spooled,
    id: string,
    [from, to]: readonly [number, number],
    round: Round,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const request: CallRequest = {
      method: "PATCH",
      path: `${PATH}/${id}`,
      headers: { "content-type": "application/partial-upload", "upload-offset": String(from) },
      timeoutMs: TIMEOUT_MS,
      body: () => ({ stream: blob.open(from, to), length: to - from }),
      ...(signal === undefined ? {} : { signal }),
    };
    const tried = await this.#calls.once(request);
    if ("failure" in tried) {
      round.failure = tried.failure;
      round.atLeastMs = Math.max(round.atLeastMs, tried.atLeastMs);
      return;
    }
    if (tried.status === 201 || tried.status === 204) {
      round.done ||= tried.headers.get("upload-complete") === "?1";
      return await tried.discard();
    }
    const error = await this.#calls.refused(request, tried);
    if (error.code === "cid_mismatch") {
      throw new SubletError(
        "integrity",
        `blob ${blob.cid} changed while it was sent: ${error.message}`,
        { cause: error },
      );
    }
    // The upload was given up, or another request took this part over: what is missing now is asked again.
    if (error.code !== "conflict" && error.code !== "not_found") throw error;
    round.failure = error;
  }
}

/** What is missing, in parts. Nothing is: an empty last part lets the server store the blob. */
function partsOf({ missing }: State, length: number): [from: number, to: number][] {
  const parts: [number, number][] = [];
  for (const [start, end] of missing) {
    for (let from = start; from < Math.min(end, length); from += PART) {
      parts.push([from, Math.min(end, length, from + PART)]);
    }
  }
  return parts.length === 0 ? [[length, length]] : parts;
}
